//! Which worlds are the same: owners and tokens are renamed, processes change places.

use idempotent_runtime::protocol::Token;

use crate::config::Config;
use crate::db::Db;
use crate::mutant::Mutant;
use crate::operator::Looks;
use crate::relay::Relay;
use crate::request::{ATTEMPTS_MAX, By, Request, Value};
use crate::worker::{At, Worker};
use crate::world::World;

/// What is done to each owner and each token of a world.
trait Each {
    fn owner(&mut self, owner: &mut u8);
    fn token(&mut self, token: &mut Token);

    fn value(&mut self, value: &mut Value) {
        if *value < ATTEMPTS_MAX {
            self.owner(value);
        }
    }

    fn by(&mut self, by: &mut By) {
        self.owner(&mut by.owner);
        self.token(&mut by.token);
    }
}

fn visit_db(db: &mut Db, each: &mut impl Each) {
    use idempotent_runtime::protocol::StoredResult;
    if let Some(record) = &mut db.record {
        each.owner(&mut record.owner.0[0]);
        each.token(&mut record.token);
        if let Some(StoredResult::Json(json)) = &mut record.result {
            json.iter_mut().for_each(|value| each.value(value));
        }
    }
    if let Some(step) = &mut db.step {
        each.owner(&mut step.owner.0[0]);
        step.value.iter_mut().flatten().for_each(|value| each.value(value));
    }
    if let Some(message) = &mut db.message {
        each.owner(&mut message.owner.0[0]);
        each.token(&mut message.token);
    }
    db.truth.last.iter_mut().for_each(|owner| each.owner(owner));
    db.truth.finished.iter_mut().for_each(|(_, value)| each.value(value));
    db.truth.step.iter_mut().for_each(|value| each.value(value));
}

fn visit_worker(worker: &mut Worker, each: &mut impl Each) {
    match worker {
        Worker::Idle => {}
        Worker::Asking(caller) => each.owner(&mut caller.owner),
        Worker::Found { caller, seen, .. } => {
            each.owner(&mut caller.owner);
            each.token(seen);
        }
        Worker::Runs(attempt) => {
            each.by(&mut attempt.by);
            match &mut attempt.at {
                At::Fresh { seen, .. } => seen.iter_mut().for_each(|owner| each.owner(owner)),
                At::Acted { value, .. } | At::Recorded { value } | At::Ending { value, .. } => {
                    each.value(value);
                }
                At::Started { .. }
                | At::Clearing { .. }
                | At::Cleared
                | At::Releasing(_)
                | At::SendsLater => {}
            }
        }
    }
}

fn visit_request(request: &mut Request, each: &mut impl Each) {
    match request {
        Request::Claim { owner, .. } | Request::ClaimMessage { owner, .. } => each.owner(owner),
        Request::TakeOver { owner, seen, .. } => {
            each.owner(owner);
            each.token(seen);
        }
        Request::Renew { by } | Request::Release { by, .. } | Request::EndDelivery { by, .. } => {
            each.by(by)
        }
        Request::Start { by, seen, .. } => {
            each.by(by);
            seen.iter_mut().for_each(|owner| each.owner(owner));
        }
        Request::Record { by, value, .. } => {
            each.by(by);
            value.iter_mut().for_each(|value| each.value(value));
        }
        Request::Complete { by, value, .. } => {
            each.by(by);
            each.value(value);
        }
        Request::Settle { seen, .. } | Request::DecideMessage { seen, .. } => each.token(seen),
        Request::SendLater => {}
    }
}

fn visit(world: &mut World, each: &mut impl Each) {
    visit_db(&mut world.db, each);
    world.lost.iter_mut().for_each(|db| visit_db(db, each));
    world.workers.iter_mut().for_each(|worker| visit_worker(worker, each));
    for relay in &mut world.relays {
        match relay {
            Relay::Idle => {}
            Relay::Asking { owner } => each.owner(owner),
            Relay::Holds { by, .. } | Relay::Ending { by, .. } => each.by(by),
        }
    }
    world.flying.iter_mut().for_each(|request| visit_request(request, each));
    if let Some(Looks::Execution { seen, .. } | Looks::Message { seen }) = &mut world.person {
        each.token(seen);
    }
    for (key, _) in &mut world.outside.known {
        key.attempt.iter_mut().for_each(|attempt| each.owner(attempt));
    }
    world.outside.told.iter_mut().for_each(|(_, value)| each.value(value));
}

/// All tokens lie a millisecond further back.
struct Older;

impl Each for Older {
    fn owner(&mut self, _: &mut u8) {}

    fn token(&mut self, token: &mut Token) {
        token.0 -= 1_000;
    }
}

/// Lets tokens grow older.
pub(crate) fn age_tokens(world: &mut World) {
    visit(world, &mut Older);
}

/// The owners in the order in which they are met; `0` is nobody.
#[derive(Default)]
struct Owners(Vec<u8>);

impl Each for Owners {
    fn owner(&mut self, owner: &mut u8) {
        if *owner == 0 {
            return;
        }
        let place = self.0.iter().position(|met| met == owner).unwrap_or_else(|| {
            self.0.push(*owner);
            self.0.len() - 1
        });
        *owner = u8::try_from(place + 1).unwrap_or(u8::MAX);
    }

    fn token(&mut self, _: &mut Token) {}
}

/// The tokens.
#[derive(Default)]
struct Tokens(Vec<Token>);

impl Each for Tokens {
    fn owner(&mut self, _: &mut u8) {}

    fn token(&mut self, token: &mut Token) {
        if !self.0.contains(token) {
            self.0.push(*token);
        }
    }
}

/// Gives the tokens before now the numbers .., -2, -1 in their order, and those behind it 1, 2, ..: the next token is
/// now's, or the one behind the last.
struct Ranks {
    before: Vec<Token>,
    behind: Vec<Token>,
}

impl Ranks {
    fn of(mut tokens: Vec<Token>) -> Self {
        tokens.sort_unstable();
        let (before, rest): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|token| token.0 < 0);
        Self {
            before: before.into_iter().rev().collect(),
            behind: rest.into_iter().filter(|token| token.0 > 0).collect(),
        }
    }
}

impl Each for Ranks {
    fn owner(&mut self, _: &mut u8) {}

    fn token(&mut self, token: &mut Token) {
        let rank = |among: &[Token]| {
            let place = among.iter().position(|met| met == token)?;
            i64::try_from(place + 1).ok()
        };
        token.0 = match (rank(&self.before), rank(&self.behind)) {
            (Some(place), _) => -place,
            (None, Some(place)) => place,
            (None, None) => 0,
        };
    }
}

/// Renames a world to the one that stands for all that are the same.
pub(crate) fn rename(config: &Config, world: &mut World) {
    world.db.forget(config);
    world.lost.iter_mut().for_each(|db| db.forget(config));
    world.workers.iter_mut().for_each(|worker| worker.forget(config));
    // Those that count the attempts of a row are what they are.
    if !config.has(Mutant::GuardWithoutOwner) {
        let mut tokens = Tokens::default();
        visit(world, &mut tokens);
        visit(world, &mut Ranks::of(tokens.0));
    }
    // Twice: the order of the processes hangs on the owners' names, and these on the order.
    visit(world, &mut Owners::default());
    world.workers.sort_unstable();
    world.relays.sort_unstable();
    let mut owners = Owners::default();
    visit(world, &mut owners);
    world.owners = u8::try_from(owners.0.len()).unwrap_or(u8::MAX);
}
