//! A line chart as SVG: white, so that it is legible on a page of any colour.

use std::fmt::{self, Display};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Around the lines: left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (76.0, 24.0, 84.0, 58.0);

/// How a value becomes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// One axis: from its first tick to its last.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: &'static str,
    pub(super) scale: Scale,
    /// Places and what is written there.
    pub(super) ticks: Vec<(f64, String)>,
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) colour: &'static str,
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

impl Scale {
    fn of(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.log10(),
        }
    }
}

impl Axis {
    /// From zero to what is just above `most`, in steps of 1, 2 or 5.
    pub(super) fn from_zero(label: &'static str, most: f64) -> Self {
        let decade = 10_f64.powf((most / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * decade).into_iter();
        let step = step.into_iter().find(|step| most / step <= 6.0).unwrap_or(decade * 10.0);
        let steps = (0..=6).map(|number| f64::from(number) * step);
        let below = steps.clone().filter(|tick| *tick < most).count();
        let ticks = steps.take(below + 1).map(|tick| (tick, written(tick))).collect();
        Self { label, scale: Scale::Linear, ticks }
    }

    /// From what is just below `least` to what is just above `most`, in steps of 1, 2 and 5.
    pub(super) fn log(label: &'static str, least: f64, most: f64) -> Self {
        let steps = (-6..9).flat_map(|decade| [1.0, 2.0, 5.0].map(|it| it * 10_f64.powi(decade)));
        let steps: Vec<f64> = steps.collect();
        let begin = steps.iter().rposition(|step| *step <= least).unwrap_or(0);
        let end = steps.iter().position(|step| *step >= most).unwrap_or(steps.len() - 1);
        let ticks = steps[begin..=end].iter().map(|tick| (*tick, written(*tick))).collect();
        Self { label, scale: Scale::Log, ticks }
    }

    /// Where between the ends a value lies: 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let end = |tick: Option<&(f64, String)>| self.scale.of(tick.map_or(0.0, |tick| tick.0));
        let (first, last) = (end(self.ticks.first()), end(self.ticks.last()));
        (self.scale.of(value) - first) / (last - first)
    }
}

/// A number as an axis shows it.
pub(super) fn written(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", value / 1e6),
        _ if value >= 1e3 => format!("{} k", value / 1e3),
        // Steps are of one digit, which a sum of binary fractions hides.
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

impl Chart {
    fn x(&self, value: f64) -> f64 {
        MARGIN.0 + self.x.place(value) * (WIDTH - MARGIN.0 - MARGIN.1)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - MARGIN.3 - self.y.place(value) * (HEIGHT - MARGIN.2 - MARGIN.3)
    }

    fn axes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, right) = (MARGIN.0, WIDTH - MARGIN.1);
        let (top, bottom) = (MARGIN.2, HEIGHT - MARGIN.3);
        for (tick, text) in &self.y.ticks {
            let y = self.y(*tick);
            writeln!(f, r##"<path d="M{left} {y:.1}H{right}" stroke="#e3e3e3"/>"##)?;
            let (x, y) = (left - 8.0, y + 4.0);
            writeln!(f, r#"<text x="{x}" y="{y:.1}" text-anchor="end">{text}</text>"#)?;
        }
        for (tick, text) in &self.x.ticks {
            let (x, end, y) = (self.x(*tick), bottom + 5.0, bottom + 20.0);
            writeln!(f, r##"<path d="M{x:.1} {bottom}V{end}" stroke="#555"/>"##)?;
            writeln!(f, r#"<text x="{x:.1}" y="{y}" text-anchor="middle">{text}</text>"#)?;
        }
        writeln!(f, r##"<path d="M{left} {bottom}H{right}" stroke="#555"/>"##)?;
        let (x, y) = (f64::midpoint(left, right), HEIGHT - 14.0);
        writeln!(f, r#"<text x="{x}" y="{y}" text-anchor="middle">{}</text>"#, self.x.label)?;
        let (x, y) = (20.0, f64::midpoint(top, bottom));
        let turned = format!(r#"transform="rotate(-90 {x} {y})" text-anchor="middle""#);
        writeln!(f, r#"<text x="{x}" y="{y}" {turned}>{}</text>"#, self.y.label)
    }

    fn lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut legend = MARGIN.0;
        for Series { name, colour, dashed, points } in &self.series {
            let dash = if *dashed { r#" stroke-dasharray="6 4""# } else { "" };
            let line = format!(r#"stroke="{colour}" stroke-width="2" fill="none"{dash}"#);
            let places: Vec<(f64, f64)> =
                points.iter().map(|point| (self.x(point.0), self.y(point.1))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            writeln!(f, r#"<path d="M{}" {line}/>"#, path.join("L"))?;
            for (x, y) in places {
                writeln!(f, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.2" fill="{colour}"/>"#)?;
            }
            let (end, text) = (legend + 26.0, legend + 32.0);
            writeln!(f, r#"<path d="M{legend} 54H{end}" {line}/>"#)?;
            writeln!(f, r#"<text x="{text}" y="58">{name}</text>"#)?;
            let letters = u32::try_from(name.chars().count()).unwrap_or(0);
            legend = text + f64::from(letters) * 7.0 + 18.0;
        }
        Ok(())
    }
}

impl Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13" fill="#222">
<title>{title}</title>
<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>
<text x="{left}" y="30" font-size="16" font-weight="600">{title}</text>"##,
            title = self.title,
            left = MARGIN.0,
        )?;
        self.axes(f)?;
        self.lines(f)?;
        writeln!(f, "</svg>")
    }
}

#[cfg(test)]
mod tests {
    use super::{Axis, Chart, Series};

    fn ticks(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn an_axis_ends_just_above_the_largest() {
        assert_eq!(ticks(&Axis::from_zero("", 31_937.0)), ["0", "10 k", "20 k", "30 k", "40 k"]);
        assert_eq!(ticks(&Axis::from_zero("", 1.25)), ["0", "0.5", "1", "1.5"]);
        assert_eq!(ticks(&Axis::from_zero("", 6.0)), ["0", "1", "2", "3", "4", "5", "6"]);
    }

    #[test]
    fn a_logarithmic_axis_holds_both_ends() {
        assert_eq!(
            ticks(&Axis::log("", 0.54, 62.0)),
            ["0.5", "1", "2", "5", "10", "20", "50", "100"]
        );
        assert_eq!(ticks(&Axis::log("", 1.0, 10.0)), ["1", "2", "5", "10"]);
    }

    #[test]
    fn the_ends_of_the_axes_are_the_corners() {
        let line = vec![(1.0, 0.0), (10.0, 6.0)];
        let series = Series { name: "ours", colour: "#000", dashed: false, points: line };
        let x = Axis::log("x", 1.0, 10.0);
        let y = Axis::from_zero("y", 6.0);
        let chart = Chart { title: "t", x, y, series: vec![series] };
        assert!(chart.to_string().contains(r#"d="M76.0 342.0L696.0 84.0""#), "{chart}");
    }
}
