//! A newsletter, by a mail API that takes idempotency keys, and by SMTP, which knows none.
//!
//!     cargo xtask setup                                    # once: a real mail server, aiosmtpd
//!     cargo run -p idempotent-examples --bin newsletter
//!
//! The usual form is a loop:
//!
//!     for reader in readers {
//!         mail.send(&issue, reader).await?;     // the process dies at the 4,711th
//!     }
//!
//! Started again, it sends 4,710 mails a second time. Not started again, it forgets the rest. A column `sent_at` for each
//! reader narrows that to one mail, and there it ends: the process can die after the mail server's "250" and before the
//! column is written.
//!
//! Below, a handler commits **one message for each reader** together with its completion, and a relay delivers each:
//!
//! - A **mail API** is sent the message's id as `Idempotency-Key`. Asked twice, it mails once, as long as it remembers
//!   the key: a day, as a rule. So a message that was given up for longer than that is looked at before it is retried.
//! - **SMTP** has no such key. What stays is the instant between the server's "250" and the relay's record of it: a
//!   process that dies there leaves a mail that is sent and not known to be, and the next relay sends it again. No
//!   library closes that gap, since nobody can ask the server. The two mails have the same `Message-ID`; a mail program
//!   may show one of them, no mail server drops one.
//! - SMTP **at most once** is the other choice: the relay writes first that it will send, and never sends again what it
//!   once began. In that instant, and in the one before the mail, the message goes to review, where a person decides. No
//!   reader gets two; one may get none until then.
//!
//! Choose by what is worse. For a newsletter a second copy is; for a password reset it is the mail that never came.
//!
//! The program starts itself as the editor's process and kills that at each point (SIGKILL); the next one finishes.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Context as _, bail, ensure};
use idempotent_runtime::outbox::{self, Delivery, Relay, Route, Sink, SinkError, SmtpSink};
use idempotent_runtime::provider::{ProviderAnswer, classify};
use idempotent_runtime::testing::provider::{FakeProvider, Request};
use idempotent_runtime::{Disposition, Error, Runtime, idempotent};
use lettre::{AsyncSmtpTransport, Message, Tokio1Executor};
use serde::{Deserialize, Serialize};

/// What the editor's queue delivers, at least once.
#[derive(Clone, Debug, Serialize)]
struct Issue {
    number: String,
    text: String,
}

/// The message: all that a mail needs, in the form that the mail API takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Letter {
    from: String,
    to: String,
    subject: String,
    text: String,
}

const READERS: [&str; 3] = ["ada@example.org", "grace@example.org", "mary@example.org"];

/// Sends an issue to all, or to nobody. A list of more than 1,000 readers, the most that one execution sends, is cut
/// into pages: a handler for each, with the page in the key.
///
/// A lease of a second, so that the next process need not wait long; leave yours at 30 seconds.
#[idempotent(key = "newsletter:{issue.number}", lease = "1s")]
async fn publish(
    issue: Issue,
    #[context] readers: &'static [&'static str],
    #[context] death: Death,
) -> Result<usize, Error> {
    for reader in readers {
        let letter = Letter {
            from: "The Analytical Engine <news@engine.example>".to_owned(),
            to: (*reader).to_owned(),
            subject: issue.number.clone(),
            text: issue.text.clone(),
        };
        outbox::send("newsletter", &letter)?;
    }
    death.passes("before the commit");
    Ok(readers.len())
}

/// SMTP, at least once: what comes with the feature `smtp`.
fn smtp(port: u16) -> Result<impl Sink, Error> {
    // Yours is `AsyncSmtpTransport::relay("smtp.example")`, with credentials and TLS.
    let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1").port(port);
    SmtpSink::new(server.build(), "engine.example", |delivery: &Delivery| {
        let letter: Letter = delivery.json()?;
        Message::builder()
            .from(letter.from.parse().map_err(SinkError::dead)?)
            .to(letter.to.parse().map_err(SinkError::dead)?)
            .subject(letter.subject)
            .body(letter.text)
            .map_err(SinkError::dead)
    })
}

/// A mail API, such as Resend's, that mails once for each `Idempotency-Key`.
fn mail_api(url: &str) -> impl Sink + use<> {
    let (http, url) = (reqwest::Client::new(), format!("{url}/emails"));
    move |delivery: Delivery| {
        let request = http
            .post(&url)
            .timeout(Duration::from_secs(10))
            .bearer_auth("the token of your account")
            .header("Idempotency-Key", delivery.id())
            .header("Content-Type", "application/json")
            .body(delivery.body().to_vec());
        async move {
            // Nobody knows of an answer that did not come whether the mail went: `retry`, under the same key.
            let answer = request.send().await.map_err(SinkError::retry)?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let body = answer.bytes().await.map_err(SinkError::retry)?;
            let meaning = classify(status.as_u16(), |it| headers.get(it)?.to_str().ok(), &body);
            let error = format!("the mail API answered {status}");
            match meaning {
                ProviderAnswer::Done { .. } => Ok(()),
                ProviderAnswer::Later { retry_after } | ProviderAnswer::Unclear { retry_after } => {
                    let error = SinkError::retry(error);
                    Err(retry_after.into_iter().fold(error, SinkError::after))
                }
                ProviderAnswer::Refused { .. }
                | ProviderAnswer::Misused
                | ProviderAnswer::Spent => Err(SinkError::dead(error)),
            }
        }
    }
}

/// The editor's process: publishes an issue, and delivers what is to be delivered.
async fn serve(file: &Path, issue: Issue, route: Route, death: Death) -> anyhow::Result<()> {
    let runtime = Runtime::connect("editor", &url(file)).await?;
    runtime.install()?;

    // As a consumer does it: what is not acknowledged comes again. The process before may still hold its lease.
    while let Err(error) = publish(issue.clone(), &READERS, death.clone()).await {
        let Disposition::RetryAfter(pause) = error.disposition() else { return Err(error.into()) };
        tokio::time::sleep(pause).await;
    }
    death.passes("after the commit");

    // One mail at a time, so that one is on its way when the process is killed; yours may have more.
    let route = route.concurrency(1).lease(Duration::from_secs(3));
    Relay::new(&runtime)
        .poll_every(Duration::from_millis(50))
        .sink("newsletter", route)
        .run_until(nothing_is_left(&runtime))
        .await?;
    death.passes("after the last record");
    runtime.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// A sink in a process that can die at the second mail. You write `.sink("newsletter", smtp(..)?)`.
fn mortal(sink: impl Sink, death: &Death) -> Route {
    let (sink, death) = (Arc::new(sink), death.clone());
    Route::new(move |delivery: Delivery| {
        let (sink, death) = (Arc::clone(&sink), death.clone());
        async move {
            let second = delivery.json::<Letter>()?.to == READERS[1];
            let death = if second { death } else { Death("never".to_owned()) };
            death.passes(BEFORE);
            sink.deliver(&delivery).await?;
            death.passes(AFTER);
            Ok(())
        }
    })
}

/// Completes once nothing is to be delivered but what waits for a person.
async fn nothing_is_left(runtime: &Runtime) {
    let outbox = runtime.outbox();
    while !outbox.counts().await.is_ok_and(|it| it.iter().all(|it| it.pending + it.sending == 0)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How mails are sent.
const WAYS: [&str; 3] = ["mail API", "SMTP", "SMTP at most once"];

/// Where the process is killed.
const POINTS: [&str; 5] =
    ["before the commit", "after the commit", BEFORE, AFTER, "after the last record"];
const BEFORE: &str = "before a mail";
const AFTER: &str = "after a mail, before its record";

/// Whether it is as said above, by mails sent, arrived, different ones of those, and messages in review.
fn holds(way: &str, point: &str, [sent, arrived, different, review]: [usize; 4]) -> bool {
    let (all, in_the_gap) = (READERS.len(), point == AFTER);
    match way {
        // Asked again in the gap, and nobody gets two.
        "mail API" => (arrived, different, review) == (all, all, 0) && (sent > all || !in_the_gap),
        // Nobody gets none. In the gap somebody gets two, which are one by their `Message-ID`.
        "SMTP" => (different, review) == (all, 0) && (arrived > all || !in_the_gap),
        // Nobody gets two. Of who was about to, or did, a person is asked.
        _ => {
            let asked = review > 0 || !(in_the_gap || point == BEFORE);
            arrived == different && different + review >= all && asked
        }
    }
}

/// A process that lives longer than this hangs.
const LIFE_MAX: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [way, number, point, database, api, port] = arguments.as_slice() else {
        ensure!(arguments.is_empty(), "it takes no arguments");
        return demonstrate().await;
    };
    let death = Death(point.clone());
    let route = match way.as_str() {
        "mail API" => mortal(mail_api(api), &death),
        "SMTP" => mortal(smtp(port.parse()?)?, &death),
        "SMTP at most once" => mortal(smtp(port.parse()?)?, &death).at_most_once(),
        _ => bail!("no such way"),
    };
    let issue = Issue { number: number.clone(), text: "Note G, at last.".to_owned() };
    let serving = serve(Path::new(database), issue, route, death);
    tokio::time::timeout(LIFE_MAX, serving).await.context("it hangs")?
}

/// Kills processes at each point, and looks what has arrived when the next ones are done.
async fn demonstrate() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let server = MailServer::start(&directory.path().join("mails"))?;
    let subject = |request: &Request| {
        let letter: Result<Letter, _> = serde_json::from_slice(request.body());
        letter.map_or_else(|error| error.to_string(), |letter| letter.subject)
    };
    let api = FakeProvider::builder().operation(subject).build();
    let listening = api.listen().await?;

    let mut cases: Vec<Case> = Vec::new();
    for way in WAYS {
        for point in POINTS {
            let issue = format!("Issue {}", cases.len() + 1);
            let database = directory.path().join(format!("{issue}.db"));
            cases.push(Case { way, point, issue, database });
        }
    }
    tokio::task::block_in_place(|| kill_and_finish(&cases, listening.url(), server.port))?;

    let mut broken = Vec::new();
    println!("{} readers, an issue for each row\n", READERS.len());
    println!("by                  killed                            sent arrived different review");
    for Case { way, point, issue, database } in &cases {
        let requests = api.requests().into_iter().map(|seen| seen.request);
        let requests = requests.filter(|request| subject(request) == *issue);
        let ids: Vec<String> = match *way {
            "mail API" => requests.filter_map(|it| it.key().map(str::to_owned)).collect(),
            _ => server.message_ids(issue)?,
        };
        let sent = ids.len();
        let arrived = if *way == "mail API" { api.effects(issue) } else { sent };
        let different = ids.iter().collect::<BTreeSet<_>>().len();
        let runtime = Runtime::connect("editor", &url(database)).await?;
        let review = runtime.outbox().in_review(None, 100).await?.len();
        println!("{way:<20}{point:<33}{sent:>5}{arrived:>8}{different:>10}{review:>7}");
        if !holds(way, point, [sent, arrived, different, review]) {
            broken.push(format!("{way}, killed {point}"));
        }
    }
    ensure!(broken.is_empty(), "the promise does not hold:\n{}", broken.join("\n"));
    println!(
        "\nTwo mails with one Message-ID: SMTP's gap. At most once has a person in its place."
    );
    Ok(())
}

/// A process that is killed, and one that finishes.
struct Case {
    way: &'static str,
    point: &'static str,
    issue: String,
    database: PathBuf,
}

fn url(database: &Path) -> String {
    format!("sqlite://{}", database.display())
}

/// All at once, since each has a file of its own.
fn kill_and_finish(cases: &[Case], api: &str, smtp: u16) -> anyhow::Result<()> {
    for dies in [true, false] {
        let mut processes: Vec<Child> = Vec::new();
        for Case { way, point, issue, database } in cases {
            let mut editor = Command::new(env::current_exe()?);
            editor.arg(way).arg(issue).arg(if dies { point } else { "never" }).arg(database);
            editor.arg(api).arg(smtp.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
            processes.push(editor.spawn().context("starting the editor's process")?);
        }
        for (mut process, Case { way, point, .. }) in processes.into_iter().zip(cases) {
            if dies {
                let said = line(&mut process)?;
                process.kill()?;
                ensure!(said == *point, "{way}: it did not come to: {point}");
            }
            let status = process.wait()?;
            ensure!(status.success() != dies, "{way}, {point}: {status}");
        }
    }
    Ok(())
}

/// What a process says first.
fn line(process: &mut Child) -> anyhow::Result<String> {
    let mut line = String::new();
    BufReader::new(process.stdout.take().context("its output")?).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Where a process is killed, if anywhere.
#[derive(Clone, Debug)]
struct Death(String);

impl Death {
    /// At its point it says so, and does nothing more until it is killed: by SIGKILL, or with who started it.
    fn passes(&self, point: &str) {
        if self.0 == point {
            println!("{point}");
            let _ = io::stdin().read(&mut [0]);
            process::abort();
        }
    }
}

/// A real mail server, on a port that the system chose; it keeps each mail in a file, and ends with this process.
struct MailServer {
    process: Child,
    port: u16,
    folder: PathBuf,
}

const SERVER: &str = r#"
import asyncio, sys
from aiosmtpd.handlers import Mailbox
from aiosmtpd.smtp import SMTP

async def main():
    mails = Mailbox(sys.argv[1])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(mails), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"#;

const NO_SERVER: &str = "no aiosmtpd, the mail server that this sends to. Type:
    cargo xtask setup
which installs it below `target`, or install it yourself:
    python3 -m venv mail && mail/bin/pip install aiosmtpd==1.4.6
    AIOSMTPD_PYTHON=mail/bin/python cargo run -p idempotent-examples --bin newsletter";

impl MailServer {
    fn start(folder: &Path) -> anyhow::Result<Self> {
        let program = env::current_exe()?;
        let installed = program.ancestors().map(|it| it.join("tools/aiosmtpd/bin/python"));
        let named = env::var_os("AIOSMTPD_PYTHON").map(PathBuf::from);
        let mut pythons = named.into_iter().chain(installed);
        let python = pythons.find(|python| python.is_file()).context(NO_SERVER)?;
        let mut server = Command::new(python);
        server.args(["-c", SERVER]).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = server.spawn().context("starting aiosmtpd")?;
        let port = line(&mut process)?.parse().context(NO_SERVER)?;
        Ok(Self { process, port, folder: folder.to_owned() })
    }

    /// The `Message-ID`s of an issue's mails.
    fn message_ids(&self, issue: &str) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for file in fs::read_dir(self.folder.join("new"))? {
            let mail = fs::read_to_string(file?.path())?;
            let header = |name| mail.lines().find_map(|line| line.strip_prefix(name));
            if header("Subject: ") == Some(issue) {
                ids.extend(header("Message-ID: ").map(str::to_owned));
            }
        }
        Ok(ids)
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}
