//! A person who looks at what is in review, and decides later.

use idempotent_runtime::protocol::{MessageState, Record, State, Token};

use crate::config::Config;
use crate::db::Db;
use crate::effects::Outside;
use crate::mutant::Mutant;
use crate::request::{Decides, Request};
use crate::time::NOW;

/// What a person looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Looks {
    /// At an execution in review, or a finished one, with this token.
    Execution { seen: Token, finished: bool },
    /// At a message that is dead or in review.
    Message { seen: Token },
}

/// What there is to look at.
pub(crate) fn sees(config: &Config, db: &Db) -> Vec<Looks> {
    let mut sees = Vec::new();
    if let Some(Record { state, token, .. }) = db.record.as_ref() {
        let reopens = config.anew > 0 && state.is_finished();
        if *state == State::Review || reopens {
            sees.push(Looks::Execution { seen: *token, finished: state.is_finished() });
        }
    }
    if let Some(message) = &db.message
        && matches!(message.state, MessageState::Dead | MessageState::Review)
    {
        sees.push(Looks::Message { seen: message.token });
    }
    sees
}

/// What a person decides about what was seen. What is said about the outside is what is so when it is said, which is
/// once nobody can act any more, as the answer to a decision that comes too early asks for.
pub(crate) fn decisions(
    config: &Config,
    db: &Db,
    outside: &Outside,
    anew: u8,
    looks: Looks,
) -> Vec<Request> {
    let (seen, finished) = match looks {
        Looks::Message { seen } => {
            return vec![Request::DecideMessage { seen, delivered: outside.sent > 0 }];
        }
        Looks::Execution { seen, finished } => (seen, finished),
    };
    let mut decides = match finished {
        true => vec![Decides::Reopen],
        false => vec![Decides::Retry, Decides::Completed, Decides::Failed],
    };
    let quiet = db.record.as_ref().is_none_or(|record| record.alive_until <= NOW);
    let open = db.step.as_ref().is_some_and(|step| step.is_open());
    if !finished && open && (quiet || config.has(Mutant::DecidesTooEarly)) {
        if outside.effects > 0 {
            decides.push(Decides::Happened);
        } else if anew > 0 {
            decides.push(Decides::DidNotHappen);
        }
    }
    decides.into_iter().map(|decides| Request::Settle { seen, decides }).collect()
}
