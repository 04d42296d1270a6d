//! One run of the workload, from the full queue to the empty one.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use crate::broker::{Broker, Progress};
use crate::fleet::Fleet;
use crate::plan::Plan;
use crate::provider::{Keys, Provider};
use crate::report::Row;
use crate::worker::{Config, Handler};

/// Longest time a run may take; it takes a few seconds.
const RUN_MAX: Duration = Duration::from_secs(120);
/// Between two looks at how far a run is.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Purposes of random numbers.
const KILLS: u64 = 0;
const LATENCY: u64 = 1;

/// Which handler runs against which provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Plain,
    Annotated,
    KeysIgnored,
}

impl Scenario {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Annotated, Self::KeysIgnored];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain handler",
            Self::Annotated => "annotated",
            Self::KeysIgnored => "annotated, keys ignored",
        }
    }

    fn handler(self) -> Handler {
        match self {
            Self::Plain => Handler::Plain,
            Self::Annotated | Self::KeysIgnored => Handler::Annotated,
        }
    }

    fn keys(self) -> Keys {
        match self {
            Self::Plain | Self::Annotated => Keys::Honoured,
            Self::KeysIgnored => Keys::Ignored,
        }
    }

    /// Delivers the plan's copies to workers that are killed, until all are settled, and counts the charges.
    pub(crate) async fn run(self, plan: &Plan, store: &str) -> Result<Row> {
        let started = Instant::now();
        let provider = Provider::start(self.keys(), plan.rng(LATENCY)).await?;
        let broker = Broker::start(plan.copies.clone()).await.context("starting the broker")?;
        let config = Config {
            handler: self.handler(),
            broker: broker.address(),
            billing: provider.url().to_owned(),
            store: store.to_owned(),
            // Each run's own, or it would be answered from the results of the one before.
            namespace: format!("quickstart-{}", Uuid::new_v4().simple()),
        };
        let mut fleet = Fleet::start(&config, plan.rng(KILLS))?;
        self.kill_until_drained(&mut fleet, &broker, started).await?;
        let kills = fleet.kills();
        fleet.end().await?;
        let progress = broker.progress().borrow().clone();
        let charges = provider.close().await?;
        let row = Row::new(self, plan.operations, kills, &progress, &charges);
        self.done(&progress, kills, started);
        Ok(row)
    }

    async fn kill_until_drained(
        self,
        fleet: &mut Fleet,
        broker: &Broker,
        started: Instant,
    ) -> Result<()> {
        let mut progress = broker.progress();
        let mut kill_at = Instant::now() + fleet.pause();
        loop {
            tokio::select! {
                biased;
                drained = progress.wait_for(Progress::drained) => {
                    drained.context("the broker ended by itself")?;
                    return Ok(());
                }
                () = sleep_until(kill_at) => {
                    fleet.kill_one()?;
                    kill_at = Instant::now() + fleet.pause();
                }
                () = sleep(SHOW_EVERY) => {}
            }
            let so_far = broker.progress().borrow().clone();
            if started.elapsed() > RUN_MAX {
                bail!("{}: not done after {RUN_MAX:?}: {so_far:?}", self.name());
            }
            self.show(&so_far, fleet.kills(), started);
        }
    }

    /// Overwrites the last line on a terminal; elsewhere only the end of a run is told.
    fn show(self, progress: &Progress, kills: u32, started: Instant) {
        let mut terminal = std::io::stderr();
        if terminal.is_terminal() {
            let line = self.line(progress, kills, started);
            // A terminal that cannot be written does not see the progress.
            let _ = write!(terminal, "\r\x1b[K{line}");
            let _ = terminal.flush();
        }
    }

    fn done(self, progress: &Progress, kills: u32, started: Instant) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        eprintln!("{}", self.line(progress, kills, started));
    }

    fn line(self, progress: &Progress, kills: u32, started: Instant) -> String {
        let Progress { queued, settled, deliveries, overlapping, dead } = progress;
        let mut line = format!(
            "{:<24} {settled:>3}/{queued} settled, {deliveries:>3} deliveries ({overlapping} beside a \
             copy in another worker), {kills:>2} kills, {:.1} s",
            self.name(),
            started.elapsed().as_secs_f64(),
        );
        if *dead > 0 {
            line.push_str(&format!(", {dead} given up"));
        }
        line
    }
}
