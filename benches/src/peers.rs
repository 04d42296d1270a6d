//! The same work done by others: what `benches/peers/` has, each a process that does what it is told.

mod list;
mod ours;
mod process;

use std::error::Error;
use std::ops::Range;
use std::time::Duration;

use idempotent_conformance::PostgresServer;

use crate::cases::Wanted;
use crate::rounds::{Comparison, Load, Plan, Took, Turns, in_turns, populate};
use crate::table::{self, Case, Target};
use crate::work::{Payment, bodies_run};

use list::{Calls, PEERS, Peer, Shape};
use ours::Ours;
use process::Process;

/// The pool of both sides, where they have one.
const POOL_SIZE: u32 = 32;
/// Finished operations that replays pick from.
const REPLAYED: u64 = 1_024;
/// Between the first operations of two cases.
const STRIDE: u64 = 1_000_000_000;
/// So long that each caller of a peer with a few hundred calls a second makes several.
const PLAN: Plan = Plan { rounds: 11, slice: Duration::from_millis(400), calls_max: u64::MAX };

/// A peer, and what it says of its versions, or why it does not start.
pub(crate) type Installed = (&'static Peer, Result<String, String>);

/// Whether one of the cases is wanted.
pub(crate) fn any_wanted(wanted: &Wanted) -> bool {
    PEERS.iter().any(|peer| peer.is_wanted(wanted))
}

/// Asks the wanted peers for their versions, and says them above the table.
pub(crate) fn installed(wanted: &Wanted) -> Vec<Installed> {
    let peers = PEERS.iter().filter(|peer| peer.is_wanted(wanted));
    let asked = peers.map(|peer| (peer, process::version(peer)));
    asked
        .inspect(|(_, version)| {
            if let Ok(version) = version {
                table::fact(&format!("peer      {version}"));
            }
        })
        .collect()
}

/// Measures the wanted cases of each peer and checks that both sides did the same work.
///
/// # Errors
///
/// If a server or a peer does not start or does not end, or a side did other work.
pub(crate) async fn run(
    wanted: &Wanted,
    installed: &[Installed],
    server: &PostgresServer,
) -> Result<(), Box<dyn Error>> {
    if installed.is_empty() {
        return Ok(());
    }
    table::fact("");
    table::fact(&PLAN.to_string());
    table::head("peer");
    let mut checked = Vec::new();
    for (peer, version) in installed {
        match version {
            Ok(_) => checked.push((peer.name, one(wanted, peer, server).await?)),
            Err(why) => {
                table::absent(
                    peer.name,
                    &format!("not measured, run benches/peers/install: {why}"),
                );
            }
        }
    }
    table::fact("");
    for (name, [here, there]) in checked {
        table::fact(&format!(
            "checked   {here} operations here and {there} of {name} ran once, each is stored with its result"
        ));
    }
    Ok(())
}

/// One peer, each side on a database of its own. How many operations ran on either side.
async fn one(
    wanted: &Wanted,
    peer: &Peer,
    server: &PostgresServer,
) -> Result<[u64; 2], Box<dyn Error>> {
    let [here, there] = [server.fresh_database()?, server.fresh_database()?];
    let ran_before = bodies_run();
    let ours = Ours::connect(here.url(), POOL_SIZE, peer.in_a_step).await?;
    let mut both = Both { ours, theirs: Process::start(peer, there.url()).await?, ran: Vec::new() };
    let cases = peer.cases.iter().filter(|case| wanted.has(case.what));
    if cases.clone().any(|case| case.calls == Calls::Replays) {
        populate(&both.ours, 0, REPLAYED).await;
        both.theirs.all(0..REPLAYED).await?;
        both.ran.push(0..REPLAYED);
    }
    let mut first = 0;
    for &Shape { what, calls, callers, at_least } in cases {
        first += STRIDE;
        let seen = both.compare(calls, callers, first).await;
        let target = at_least.map_or(Target::Reported, Target::ThroughputAtLeast);
        table::line(&Case { what, callers, pool: Some(POOL_SIZE), target }, &seen);
    }
    let Both { ours, theirs, ran } = both;
    let ran_here = bodies_run() - ran_before;
    ours.check(here.url(), ran_here).await?;
    ours.runtime.shutdown(Duration::from_secs(1)).await;
    let ran_there = check(theirs, &ran).await.map_err(|error| format!("{}: {error}", peer.name))?;
    Ok([ran_here, ran_there])
}

/// Our side and a peer.
struct Both {
    ours: Ours,
    theirs: Process,
    /// The operations that the peer has run.
    ran: Vec<Range<u64>>,
}

impl Both {
    /// Has both sides take turns.
    async fn compare(&mut self, calls: Calls, callers: u64, first: u64) -> Comparison {
        let Self { ours, theirs, ran } = self;
        let milliseconds = u64::try_from(PLAN.slice.as_millis()).expect("it is short");
        let load = match calls {
            Calls::FirstRuns => Load { callers, first, replay_of: None },
            Calls::Replays => Load { callers, first: 0, replay_of: Some(REPLAYED) },
        };
        let mut turns = Turns::new(PLAN, load);
        let mut next = first;
        let their_turn = async || {
            let answer = match calls {
                Calls::FirstRuns => theirs.time(callers, milliseconds, next).await,
                Calls::Replays => theirs.replay(callers, milliseconds, REPLAYED).await,
            };
            let answer = answer.expect("without the peer there is no figure");
            if calls == Calls::FirstRuns {
                next = answer.next;
            }
            let took = Took { calls: answer.calls, wall: answer.wall, cpu: Duration::ZERO };
            (took, Vec::new())
        };
        let seen = in_turns(PLAN.rounds, async || turns.run(ours).await, their_turn).await;
        if next > first {
            ran.push(first..next);
        }
        seen
    }
}

/// Checks that each operation ran once, is stored, and is replayed with the result of our handler; ends the peer.
async fn check(mut theirs: Process, ran: &[Range<u64>]) -> Result<u64, Box<dyn Error>> {
    let expected = ran.iter().map(|range| range.end - range.start).sum();
    for replayed in [false, true] {
        let stored = theirs.stored().await?;
        if stored != [expected, expected] {
            let [bodies, stored] = stored;
            return Err(format!(
                "of {expected} operations {bodies} bodies ran and {stored} are stored, replayed: {replayed}"
            )
            .into());
        }
        if !replayed {
            for range in ran {
                theirs.all(range.clone()).await?;
            }
        }
    }
    for number in ran.iter().flat_map(|range| [range.start, range.end - 1]) {
        let [theirs, ours] =
            [theirs.show(number).await?, serde_json::to_value(Payment::of(number).receipt())?];
        if theirs != ours {
            return Err(format!("{theirs} is the answer where ours is {ours}").into());
        }
    }
    theirs.end().await?;
    Ok(expected)
}
