//! Kills relays, and looks what is booked when the next ones are done.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use idempotent_runtime::Runtime;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use crate::service::Service;
use crate::{LIFE_MAX, NAMESPACE, Order, reference, sqlite, transfer};

/// What is transferred from one account, in this order; the relay is killed at the second.
pub(crate) const ORDERS: [&str; 3] = ["order-1", "order-2", "order-3"];
const CENTS: i64 = 4_200;
const BALANCE: i64 = 100_000;

/// What the next relay does about a transfer that may have been sent. The first is what SOAP clients usually do.
pub(crate) const TRIES_AGAIN: &str = "tries again";
const ASKS: &str = "asks the bank";
const ASKS_IN_VAIN: &str = "asks in vain";

/// Where the relay is killed.
const POINTS: [&str; 5] = ["before the claim", BEFORE, DURING, AFTER, "after the record"];
pub(crate) const BEFORE: &str = "after the claim, before the call";
pub(crate) const DURING: &str = "during the call";
pub(crate) const AFTER: &str = "after the call, before the record";

/// Whether it is as promised, by calls, questions, bookings, different ones of those, and messages in review.
fn holds(way: &str, point: &str, [calls, asked, booked, different, review]: [usize; 5]) -> bool {
    let all = ORDERS.len();
    let (claimed, called) =
        ([BEFORE, DURING, AFTER].contains(&point), [DURING, AFTER].contains(&point));
    match way {
        // Nothing is lost, and what was called is called and booked again.
        TRIES_AGAIN => different == all && review == 0 && (calls > all && booked > all || !called),
        // Each once, without a person, since the bank was asked.
        ASKS => (booked, different, review) == (all, all, 0) && (asked > 0 || !claimed),
        // None twice, and of what may be lost a person is asked.
        _ => booked == different && different + review >= all && (review > 0 || !claimed),
    }
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut cases = Vec::new();
    for way in [TRIES_AGAIN, ASKS, ASKS_IN_VAIN] {
        for point in POINTS {
            let database = directory.path().join(format!("{}.db", cases.len()));
            cases.push(Case::new(way, point, database).await?);
        }
    }
    // All at once: each has a database and a bank of its own.
    let mut relays = cases.iter().map(|it| it.relay(it.point)).collect::<io::Result<Vec<_>>>()?;
    for (case, relay) in cases.iter().zip(&mut relays) {
        case.kill(relay).await.with_context(|| format!("{}, {}", case.way, case.point))?;
    }
    finish(&cases)?;

    println!(
        "next relay     killed                             calls asked booked different review"
    );
    let mut broken = Vec::new();
    for case in &cases {
        let Case { way, point, .. } = case;
        let counted = case.counted().await?;
        let [calls, asked, booked, different, review] = counted;
        let decision = case.decide().await?;
        println!(
            "{way:<15}{point:<34}{calls:>5}{asked:>6}{booked:>7}{different:>10}{review:>7}{decision}"
        );
        if !holds(way, point, counted) {
            broken.push(format!("{way}, killed {point}"));
        }
    }
    ensure!(broken.is_empty(), "the promise does not hold:\n{}", broken.join("\n"));

    // What a person had to decide is decided.
    finish(&cases)?;
    let (mut twice, mut once) = (0, 0);
    for case in &cases {
        let [_, _, booked, different, review] = case.counted().await?;
        ensure!((different, review) == (ORDERS.len(), 0), "{}, {}: lost", case.way, case.point);
        ensure!(case.balance().await? == BALANCE - 3 * CENTS, "debited something else");
        *(if booked == different { &mut once } else { &mut twice }) += 1;
        ensure!(booked == different || case.way == TRIES_AGAIN, "{}: twice", case.point);
    }
    println!(
        "\nEach transfer was booked once in {once} rows, and one of them twice in {twice} of the usual form."
    );
    Ok(())
}

/// Runs relays to their end.
fn finish(cases: &[Case]) -> anyhow::Result<()> {
    let relays = cases.iter().map(|it| it.relay("never")).collect::<io::Result<Vec<_>>>()?;
    for (mut relay, case) in relays.into_iter().zip(cases) {
        let status = tokio::task::block_in_place(|| relay.wait())?;
        ensure!(status.success(), "{}, {}: {status}", case.way, case.point);
    }
    Ok(())
}

/// A database with three transfers to be delivered, a bank, and where the relay is killed.
struct Case {
    way: &'static str,
    point: &'static str,
    database: PathBuf,
    bank: Service,
}

impl Case {
    /// What the application does: it takes the orders, and delivers nothing.
    async fn new(
        way: &'static str,
        point: &'static str,
        database: PathBuf,
    ) -> anyhow::Result<Self> {
        let mut file = open(&database).await?;
        let table = "CREATE TABLE account (id TEXT PRIMARY KEY, cents INTEGER NOT NULL) STRICT";
        sqlx::query(table).execute(&mut file).await?;
        let account = "INSERT INTO account (id, cents) VALUES ('savings', $1)";
        sqlx::query(account).bind(BALANCE).execute(&mut file).await?;
        file.close().await?;

        let runtime = Runtime::connect(NAMESPACE, &sqlite(&database)).await?;
        for id in ORDERS {
            let (id, account) = (id.to_owned(), "savings".to_owned());
            let iban = "DE02120300000000202051".to_owned();
            runtime.scope(transfer(Order { id, account, iban, cents: CENTS })).await?;
        }
        let bank = Service::start(way != ASKS_IN_VAIN).await?;
        if point == DURING {
            bank.dawdle(2);
        }
        Ok(Self { way, point, database, bank })
    }

    /// A process that delivers, and dies at this point.
    fn relay(&self, point: &str) -> io::Result<Child> {
        let mut relay = Command::new(std::env::current_exe()?);
        relay.args([self.way, point]).arg(&self.database).arg(self.bank.url());
        relay.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    /// Kills a relay at its point, by SIGKILL.
    async fn kill(&self, relay: &mut Child) -> anyhow::Result<()> {
        let mut said = String::new();
        let mut stdout = BufReader::new(relay.stdout.take().context("its output")?);
        tokio::task::block_in_place(|| stdout.read_line(&mut said))?;
        if self.point == DURING {
            // Its first transfer is recorded by now.
            tokio::time::timeout(LIFE_MAX, self.bank.until_at_work()).await.context("no call")?;
        }
        relay.kill()?;
        let status = relay.wait()?;
        ensure!(said.trim() == self.point && !status.success(), "it ended before: {status}");
        self.bank.go_on().await;
        Ok(())
    }

    /// What a person does about transfers in review: looks at the bank's statement.
    async fn decide(&self) -> anyhow::Result<&'static str> {
        let outbox = Runtime::connect(NAMESPACE, &sqlite(&self.database)).await?.outbox();
        let mut decision = "";
        for held in outbox.in_review(None, 100).await? {
            if self.bank.booked().contains(&reference(&held.id.to_string())) {
                outbox.mark_delivered(&held, "ada: it is on the statement").await?;
                decision = ", then marked as delivered";
            } else {
                outbox.retry(&held, "ada: it is not on the statement of the next day").await?;
                decision = ", then retried";
            }
        }
        Ok(decision)
    }

    async fn counted(&self) -> anyhow::Result<[usize; 5]> {
        let outbox = Runtime::connect(NAMESPACE, &sqlite(&self.database)).await?.outbox();
        let review = outbox.in_review(None, 100).await?.len();
        let booked = self.bank.booked();
        let different = booked.iter().collect::<BTreeSet<_>>().len();
        Ok([self.bank.calls(), self.bank.queries(), booked.len(), different, review])
    }

    async fn balance(&self) -> anyhow::Result<i64> {
        let mut file = open(&self.database).await?;
        Ok(sqlx::query_scalar("SELECT cents FROM account").fetch_one(&mut file).await?)
    }
}

async fn open(database: &Path) -> sqlx::Result<SqliteConnection> {
    SqliteConnectOptions::new().filename(database).create_if_missing(true).connect().await
}

/// Where a process is killed, if anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Death(String);

impl Death {
    pub(crate) fn at(point: &str) -> Self {
        Self(point.to_owned())
    }

    pub(crate) fn never() -> Self {
        Self::at("never")
    }

    /// At its point it says so, and does nothing more until it is killed: by SIGKILL, or with who started it.
    pub(crate) fn passes(&self, point: &str) {
        if self.says(point) {
            let _ = io::stdin().read(&mut [0]);
            process::abort();
        }
    }

    /// At its point it says so, and goes on until it is killed.
    pub(crate) fn says(&self, point: &str) -> bool {
        let is_here = self.0 == point;
        if is_here {
            println!("{point}");
        }
        is_here
    }
}
