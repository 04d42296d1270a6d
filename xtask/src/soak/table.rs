//! What a person is told.

use super::Row;

/// Every part, how far it is, and what it runs.
pub(crate) fn list(rows: &[Row]) -> String {
    let mut cells = vec![["part", "done", "goal", "share", "seconds", "command"].map(String::from)];
    cells.extend(rows.iter().map(|row| {
        let [done, goal, share] = progress(row);
        [row.part.name.into(), done, goal, share, row.state.seconds.to_string(), row.part.shown()]
    }));
    columns(&cells)
}

/// What is done now, and what failed.
pub(crate) fn done(rows: &[Row]) -> String {
    let header = ["part", "now", "done", "goal", "share", "seconds", "chunks", ""];
    let mut cells = vec![header.map(String::from)];
    cells.extend(rows.iter().map(|row| {
        let [done, goal, share] = progress(row);
        let now = row.state.done.saturating_sub(row.before);
        let ended = match &row.failure {
            Some(failure) => format!("FAILED: {failure}"),
            None if row.state.is_complete() => "complete".into(),
            None => String::new(),
        };
        let (seconds, chunks) = (row.state.seconds.to_string(), row.state.chunks.to_string());
        [row.part.name.into(), now.to_string(), done, goal, share, seconds, chunks, ended]
    }));
    columns(&cells)
}

fn progress(row: &Row) -> [String; 3] {
    let done = row.state.done;
    let Some(goal) = row.state.goal else { return [done.to_string(), "?".into(), "?".into()] };
    let tenths = u128::from(done) * 1_000 / u128::from(goal.max(1));
    let share = format!("{}.{} %", tenths / 10, tenths % 10);
    [done.to_string(), format!("{goal} {}", row.state.units), share]
}

/// Cells below each other. The last column is as long as it is.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let lines = rows.iter().map(|row| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = if column + 1 == N { 0 } else { width(column) };
            format!("{cell:width$}")
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
