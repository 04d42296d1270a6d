use super::judge;
use crate::checker::Fact;
use crate::database::Row;
use crate::ledger::{Answer, Asked, Event, Line, Mark, Told};

/// One order: process 1 claims it and is stopped, process 2 takes it over when the lease has lapsed and completes,
/// process 1 wakes and is refused. Times and tokens are microseconds, the lease is 200 ms.
struct Story {
    lines: Vec<Line>,
    rows: Vec<Row>,
}

const ID: &str = "00";
const FIRST: i64 = 1_000;
const SECOND: i64 = 300_000;

fn mark(nonce: &str) -> Mark {
    Mark { order: 1, nonce: nonce.to_owned(), provider_key: "key".to_owned() }
}

fn result(nonce: &str) -> String {
    format!(r#"{{"order":1,"nonce":"{nonce}"}}"#)
}

fn receipt(nonce: &str) -> Event {
    answer(Answer::Receipt { order: 1, nonce: nonce.to_owned() })
}

fn failure(kind: &str) -> Event {
    answer(Answer::Error { kind: kind.to_owned() })
}

fn answer(answer: Answer) -> Event {
    Event::Answered { order: 1, answer }
}

impl Story {
    fn sound() -> Self {
        let row = Row {
            key: "order:1".to_owned(),
            state: 3,
            token: SECOND,
            attempts: 2,
            crashes: 1,
            result: Some(result("2-b").into_bytes()),
        };
        let mut story = Self { lines: Vec::new(), rows: vec![row] };
        let lease_ms = 200;
        let (key, owner) = ("order:1".to_owned(), "a".to_owned());
        story.call(1, FIRST, Asked::Claim { key, owner, lease_ms }, 2_000, granted(FIRST, 1));
        story.say(1, 3_000, Event::Began(mark("1-a")));
        story.say(1, 4_000, Event::Effect(mark("1-a")));
        let (seen, owner, review) = (FIRST, "b".to_owned(), false);
        let takeover = Asked::TakeOver { seen, owner, lease_ms, review };
        story.call(2, 299_000, takeover, 301_000, granted(SECOND, 2));
        story.say(2, 302_000, Event::Began(mark("2-b")));
        story.say(2, 303_000, Event::Effect(mark("2-b")));
        story.completion(2, SECOND, "2-b", 320_000, Told::Done);
        story.say(2, 323_000, receipt("2-b"));
        story.completion(1, FIRST, "1-a", 330_000, Told::Fenced);
        story.say(1, 334_000, failure("LeaseLost"));
        story.say(1, 340_000, receipt("2-b"));
        story
    }

    fn say(&mut self, process: u32, at: i64, event: Event) {
        self.lines.push(Line(at, process, event));
    }

    fn call(&mut self, process: u32, at: i64, what: Asked, told_at: i64, told: Told) {
        let call = u64::try_from(self.lines.len()).unwrap();
        self.say(process, at, Event::Asked { call, id: ID.to_owned(), what });
        self.say(process, told_at, Event::Told { call, told });
    }

    fn completion(&mut self, process: u32, token: i64, nonce: &str, at: i64, told: Told) {
        self.call(process, at, Asked::Complete { token, result: result(nonce) }, at + 1_000, told);
    }

    /// Changes what was answered to the calls that `of` picks.
    fn told(&mut self, of: impl Fn(&Asked) -> bool, at: i64, told: &Told) {
        for place in 0..self.lines.len() - 1 {
            let (asked, answered) = self.lines.split_at_mut(place + 1);
            if matches!(&asked[place].2, Event::Asked { what, .. } if of(what)) {
                let Event::Told { call, .. } = answered[0].2 else { panic!("an answer follows") };
                answered[0] = Line(at, answered[0].1, Event::Told { call, told: told.clone() });
            }
        }
    }
}

fn granted(token: i64, attempts: u32) -> Told {
    Told::Granted { token, attempts }
}

/// The facts that do not hold of the story once it is spoiled.
fn broken(spoil: impl FnOnce(&mut Story)) -> Vec<Fact> {
    let mut story = Story::sound();
    spoil(&mut story);
    let report = judge(&story.lines, 0, &story.rows, 1);
    let mut facts: Vec<_> = report.violations.iter().map(|violation| violation.fact).collect();
    facts.sort_unstable();
    facts.dedup();
    facts
}

#[test]
fn the_sound_story_breaks_nothing() {
    assert_eq!(broken(|_| {}), []);
}

#[test]
fn an_order_without_a_row_is_noticed() {
    assert!(broken(|story| story.rows.clear()).contains(&Fact::OneFinishedRow));
}

#[test]
fn a_second_row_is_noticed() {
    let second = |story: &mut Story| story.rows.push(story.rows[0].clone());
    assert_eq!(broken(second), [Fact::OneFinishedRow]);
}

#[test]
fn a_row_left_running_is_noticed() {
    let running = |story: &mut Story| {
        story.rows[0].state = 1;
        story.rows[0].result = None;
    };
    assert!(broken(running).contains(&Fact::OneFinishedRow));
}

#[test]
fn another_orders_result_is_noticed() {
    let other = |story: &mut Story| {
        story.rows[0].result = Some(br#"{"order":2,"nonce":"2-b"}"#.to_vec());
    };
    assert!(broken(other).contains(&Fact::OneFinishedRow));
}

#[test]
fn a_caller_told_otherwise_is_noticed() {
    assert!(broken(|story| story.say(1, 350_000, receipt("1-a"))).contains(&Fact::OneAnswer));
}

#[test]
fn a_result_without_its_effect_is_noticed() {
    let gone = |story: &mut Story| {
        story.lines.retain(|line| !matches!(&line.2, Event::Effect(it) if it.nonce == "2-b"));
    };
    assert_eq!(broken(gone), [Fact::ResultOfAnAttempt]);
}

#[test]
fn another_provider_key_on_the_second_attempt_is_noticed() {
    let changed = |story: &mut Story| {
        for line in &mut story.lines {
            if let Event::Effect(it) = &mut line.2
                && it.nonce == "2-b"
            {
                it.provider_key = "another".to_owned();
            }
        }
    };
    assert_eq!(broken(changed), [Fact::OneProviderKey]);
}

#[test]
fn a_provider_key_of_two_orders_is_noticed() {
    let shared = |story: &mut Story| {
        story.say(3, 400_000, Event::Effect(Mark { order: 2, ..mark("3-c") }));
    };
    assert!(broken(shared).contains(&Fact::OneProviderKey));
}

#[test]
fn a_token_that_does_not_rise_is_noticed() {
    let same = |story: &mut Story| {
        let takeover = |asked: &Asked| matches!(asked, Asked::TakeOver { .. });
        story.told(takeover, 301_000, &granted(FIRST, 2));
    };
    assert!(broken(same).contains(&Fact::TokensRise));
}

#[test]
fn two_first_attempts_are_noticed() {
    let again = |story: &mut Story| {
        let takeover = |asked: &Asked| matches!(asked, Asked::TakeOver { .. });
        story.told(takeover, 301_000, &granted(SECOND, 1));
    };
    assert_eq!(broken(again), [Fact::TokensRise]);
}

#[test]
fn a_zombie_that_completes_is_noticed() {
    let done = |story: &mut Story| {
        let zombie = |asked: &Asked| matches!(asked, Asked::Complete { token: FIRST, .. });
        story.told(zombie, 331_000, &Told::Done);
    };
    assert_eq!(broken(done), [Fact::OneOwner]);
}

#[test]
fn a_takeover_inside_the_lease_is_noticed() {
    let early = |story: &mut Story| {
        let takeover = |asked: &Asked| matches!(asked, Asked::TakeOver { .. });
        story.told(takeover, 150_000, &granted(SECOND, 2));
    };
    assert_eq!(broken(early), [Fact::LeaseHolds]);
}

#[test]
fn a_takeover_after_a_renewal_is_noticed() {
    let renewed = |story: &mut Story| {
        story.call(1, 150_000, Asked::Renew { token: FIRST }, 151_000, Told::Renewed);
    };
    assert_eq!(broken(renewed), [Fact::LeaseHolds]);
}

#[test]
fn a_lease_lost_inside_the_lease_is_noticed() {
    let lost = |story: &mut Story| {
        story.call(1, 150_000, Asked::Renew { token: FIRST }, 151_000, Told::Lost);
    };
    assert_eq!(broken(lost), [Fact::LeaseHolds]);
}

#[test]
fn an_owner_that_gave_up_may_be_followed_at_once() {
    let given_up = |story: &mut Story| {
        let release = Asked::Release { token: FIRST, crash: true };
        story.call(1, 100_000, release, 101_000, Told::Done);
        let takeover = |asked: &Asked| matches!(asked, Asked::TakeOver { .. });
        story.told(takeover, 150_000, &granted(SECOND, 2));
    };
    assert_eq!(broken(given_up), []);
}

#[test]
fn a_zombie_that_renews_is_noticed() {
    let renews = |story: &mut Story| {
        story.call(1, 350_000, Asked::Renew { token: FIRST }, 351_000, Told::Renewed);
    };
    assert!(broken(renews).contains(&Fact::OvertakenIsTold));
}

#[test]
fn a_zombie_whose_result_reaches_a_caller_is_noticed() {
    assert!(broken(|story| story.say(1, 350_000, receipt("1-a"))).contains(&Fact::OvertakenIsTold));
}

#[test]
fn a_body_without_a_claim_is_noticed() {
    let unclaimed = |story: &mut Story| story.say(3, 350_000, Event::Began(mark("3-c")));
    assert_eq!(broken(unclaimed), [Fact::ClaimedFirst]);
}

#[test]
fn a_crash_that_is_not_counted_is_noticed() {
    assert_eq!(broken(|story| story.rows[0].crashes = 0), [Fact::CountsAreTrue]);
}

#[test]
fn an_attempt_that_is_not_counted_is_noticed() {
    assert_eq!(broken(|story| story.rows[0].attempts = 1), [Fact::CountsAreTrue]);
}

#[test]
fn an_error_that_nothing_explains_is_noticed() {
    let refused = |story: &mut Story| story.say(1, 350_000, failure("PayloadMismatch"));
    assert_eq!(broken(refused), [Fact::ExpectedErrors]);
}
