//! Reapers and purges that are killed between and inside of their transactions.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use idempotent_crash::worker::{self, NAMESPACE};
use idempotent_runtime::protocol::{
    Claim, Claimed, Completion, DeliveryEnd, DeliveryEndTo, ExecutionId, Identity, Limits, Message,
    MessageClaim, MessageId, MessageState, Micros, Owner, State, StepClass, StepFound, StepName,
    StepRecord, StepRecorded, StoredResult, Token, Written,
};
use idempotent_runtime::store::{Execution, Store};

/// Half of them lapse, and half are past their retention.
const EXECUTIONS: u16 = 300;
/// A sweeper looks at 25 executions in a page, and gets through two at the most.
const KILLS_MIN: u32 = 6;
/// The longest time from the end of a page to the kill.
const LATER_US_MAX: u64 = 8_000;

const OWNER: Owner = Owner([7; 16]);
const HOUR_MS: u64 = 3_600_000;
const TOPIC: &str = "receipt";

pub(crate) fn killed_sweeps_leave_every_execution_whole(url: &str) {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    tokio.block_on(async {
        let store = worker::open(url).await;
        store.migrate().await.unwrap();
        fill(&*store).await;
        let mut kills = 0;
        while is_killed(url) {
            kills += 1;
            look(&*store).await;
        }
        assert!(kills >= KILLS_MIN, "{kills} kills");
        look(&*store).await;
        use_again(&*store).await;
        store.close().await;
    });
}

/// Starts a sweeper and kills it somewhere in or behind its second page; not so if nothing was left to sweep.
fn is_killed(url: &str) -> bool {
    let mut sweeper = Command::new(env!("CARGO_BIN_EXE_sweeper"))
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(sweeper.stdout.take().unwrap());
    let swept = output.read_line(&mut String::new()).unwrap() > 0;
    if swept {
        sweeper.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
        thread::sleep(Duration::from_micros(fastrand::u64(..LATER_US_MAX)));
        sweeper.kill().unwrap();
    }
    let status = sweeper.wait().unwrap();
    let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
    assert!(killed || status.success(), "{status}");
    swept
}

fn id(number: u16) -> ExecutionId {
    let mut id = [0xA5; 16];
    id[14..].copy_from_slice(&number.to_be_bytes());
    ExecutionId(id)
}

fn ids() -> Vec<ExecutionId> {
    (0..EXECUTIONS).map(id).collect()
}

fn lapses(number: u16) -> bool {
    number.is_multiple_of(2)
}

fn claim(number: u16) -> Claim {
    let (lease_ms, retain_ms) = if lapses(number) { (1, HOUR_MS) } else { (HOUR_MS, 1) };
    let limits = Limits { lease_ms, max_runtime_ms: lease_ms, crashes_max: 8, retain_ms };
    let identity = Identity {
        namespace: NAMESPACE.to_owned(),
        tenant: String::new(),
        handler: "swept".to_owned(),
        key: Some(number.to_string()),
    };
    Claim {
        id: id(number),
        identity: identity.into(),
        owner: OWNER,
        version: 1,
        limits,
        fingerprint: None,
        issued_at: None,
    }
}

fn step(id: ExecutionId, token: Token, name: &str) -> StepRecord {
    StepRecord {
        id,
        owner: OWNER,
        token,
        name: StepName { step: name.to_owned(), part: String::new() },
        class: StepClass::Plain,
        version: 1,
        generation: 0,
        found: StepFound::Happened(b"1".to_vec()),
        earliest: Micros(0),
    }
}

fn completion(id: ExecutionId, token: Token) -> Completion {
    let message = Message {
        id: MessageId(id.0),
        topic: TOPIC.to_owned(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"1".to_vec(),
        delay_ms: 0,
    };
    let result = StoredResult::Json(b"1".to_vec());
    Completion { id, owner: OWNER, token, failed: false, result, messages: vec![message] }
}

/// Every execution has two steps, and each that ends a message that is delivered.
async fn fill(store: &dyn Store) {
    let claims: Vec<Claim> = (0..EXECUTIONS).map(claim).collect();
    let claimed = store.claim(&claims).await.unwrap();
    let token = |claimed: &Claimed| {
        let Claimed::Granted(granted) = claimed else { panic!("{claimed:?}") };
        granted.token
    };
    let tokens: Vec<Token> = claimed.iter().map(token).collect();
    let attempts: Vec<_> = ids().into_iter().zip(tokens).collect();
    let steps = |(id, token)| ["charge", "mail"].map(|name| step(id, token, name));
    let records: Vec<StepRecord> = attempts.iter().copied().flat_map(steps).collect();
    let written = store.record_steps(&records).await.unwrap();
    assert!(written.iter().all(|written| matches!(written, StepRecorded::Done { .. })));
    let ending = attempts.iter().zip(0..).filter(|(_, number)| !lapses(*number));
    let completions: Vec<_> = ending.map(|((id, token), _)| completion(*id, *token)).collect();
    let written = store.complete(&completions).await.unwrap();
    assert!(written.iter().all(|written| *written == Written::Done));
    deliver(store).await;
}

async fn deliver(store: &dyn Store) {
    let claim = MessageClaim {
        namespace: NAMESPACE.to_owned(),
        topic: TOPIC.to_owned(),
        owner: OWNER,
        lease_ms: HOUR_MS,
        at_most_once: false,
        reconciles: false,
        rows_max: EXECUTIONS.into(),
        since: Micros(0),
        again: false,
    };
    let claimed = store.messages().claim_messages(&[claim]).await.unwrap().remove(0).messages;
    let ends = claimed.iter().map(|message| DeliveryEnd {
        id: message.id,
        owner: OWNER,
        token: message.token,
        to: DeliveryEndTo::Delivered,
    });
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends.len(), usize::from(EXECUTIONS) / 2);
    store.messages().end_deliveries(&ends).await.unwrap();
}

/// Looks at everything: what is swept is swept whole, but for its delivered message, and once.
async fn look(store: &dyn Store) {
    let ids = ids();
    let messages: Vec<MessageId> = ids.iter().map(|id| MessageId(id.0)).collect();
    loop {
        let before = store.read(&ids).await.unwrap();
        let journals = store.journals(&ids).await.unwrap();
        let found = store.messages().read_messages(&messages).await.unwrap();
        let states = |read: &[Option<Execution>]| {
            read.iter().map(|it| Some(it.as_ref()?.record.clone())).collect::<Vec<_>>()
        };
        // A server may still be doing what the one that was killed had asked for.
        if states(&store.read(&ids).await.unwrap()) != states(&before) {
            continue;
        }
        for (number, execution) in (0..).zip(&before) {
            let (steps, message) =
                (journals[usize::from(number)].len(), &found[usize::from(number)]);
            let message = message.as_ref().map(|message| message.state);
            let state = execution.as_ref().map(|it| (it.record.state, it.record.crashes));
            let allowed = match (lapses(number), state) {
                (true, Some((State::Running, 0) | (State::Retryable, 1))) => (2, None),
                (false, Some((State::Completed, 0))) => (2, Some(MessageState::Delivered)),
                (false, None) => (0, Some(MessageState::Delivered)),
                _ => panic!("execution {number} is {execution:?}"),
            };
            assert_eq!((steps, message), allowed, "execution {number} is {state:?}");
        }
        return;
    }
}

/// Case 32: what is purged knows nothing of its old life, and sends its message again.
async fn use_again(store: &dyn Store) {
    let purged: Vec<u16> = (0..EXECUTIONS).filter(|number| !lapses(*number)).collect();
    let claims: Vec<Claim> = purged.iter().copied().map(claim).collect();
    let ids: Vec<ExecutionId> = purged.into_iter().map(id).collect();
    let mut completions = Vec::with_capacity(ids.len());
    for (id, claimed) in ids.iter().zip(store.claim(&claims).await.unwrap()) {
        let Claimed::Granted(granted) = claimed else { panic!("{claimed:?}") };
        assert_eq!((granted.attempts, granted.crashes, granted.generation), (1, 0, 0));
        completions.push(completion(*id, granted.token));
    }
    let journals = store.journals(&ids).await.unwrap();
    assert!(journals.iter().all(Vec::is_empty), "{journals:?}");
    let written = store.complete(&completions).await.unwrap();
    assert!(written.iter().all(|written| *written == Written::Done));
    deliver(store).await;
}
