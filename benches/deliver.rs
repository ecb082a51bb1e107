//! Whole deliveries, durable, beside the same number of jobs through job queues on the same disk.
//!
//! `cargo bench --bench deliver -- [--runs N] [--messages N]`; `docs/performance.md` says how to read
//! it. A delivery is prepared, claimed, accepted, claimed, observed, claimed and processed: seven
//! events, each durable before the next. The job queues are programs of their own, `benches/peers`,
//! which are built when they are measured.

mod measure;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::{BoxFuture, FutureExt as _, join, join_all};
use recount::{
    Envelope, MessageId, PersistedJson, PreparedInput, Receipt, Recount, Settlement, SystemClock,
    ThreadId,
    delivery::{BatchSize, MessageDeliveryKey, MessageDeliveryPolicy, OutboxLimits},
    log::sqlite::SqliteLog,
    service::{
        Admission, AdmissionError, DueIndex as _, NewMessage, OutboxService, SubmissionStatus,
    },
};
use recount_core::doc;
use serde_json::json;
use tokio::{
    runtime::Runtime,
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
};

use measure::{Job, Options, compare, count, timed};

/// The job queues, the fastest first.
const PEERS: [&str; 2] = ["honker", "apalis"];

const USAGE: &str = "\
cargo bench --bench deliver -- [OPTIONS]
  --runs N        rounds (7)
  --messages N    messages in a round (2_000)
  --dir DIR       where the logs are written (the target folder)
  --no-peers      leave the job queues out";

fn main() -> ExitCode {
    measure::exit(run())
}

fn run() -> Result<(), String> {
    let options = Options::read(USAGE, &["--runs", "--messages", "--dir"], &["--no-peers"])?;
    let size =
        |name, quick, real| options.value(name, if options.is_smoke() { quick } else { real });
    let (runs, messages) = (size("--runs", 1, 7)?.max(1), size("--messages", 40, 2_000)?);
    let dir = tempfile::tempdir_in(options.text("--dir").unwrap_or(env!("CARGO_TARGET_TMPDIR")));
    let dir = dir.map_err(|error| format!("no temporary directory: {error}"))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    println!("medians of {runs} rounds");
    let names: &[_] = if options.is_smoke() || options.has("--no-peers") { &[] } else { &PEERS };
    let peers: Vec<_> = names.iter().map(|name| peer(name)).collect::<Result<_, _>>()?;
    for (at, peer) in peers.iter().enumerate() {
        let warm = dir.path().join(at.to_string());
        std::fs::create_dir(&warm).map_err(|error| error.to_string())?;
        let (name, _) = jobs_of_peer(peer, &warm, 1, 1)?;
        println!("a job queue is {name}");
    }
    println!();
    for concurrency in [1, 8, 32] {
        let (runtime, has_peers) = (&runtime, !peers.is_empty());
        let deliver = |name, outboxes, way| {
            let plan = Plan { concurrency, outboxes, messages, way };
            // Beside the fastest of the queues.
            let beside = has_peers.then_some(0);
            Job::new(name, beside, move |path| plan.deliver(runtime, path))
        };
        let mut jobs = Vec::new();
        for (name, peer) in names.iter().zip(&peers) {
            let beside = (!jobs.is_empty()).then_some(0);
            jobs.push(Job::new(name, beside, move |path| {
                jobs_of_peer(peer, path, messages, concurrency).map(|(_, seconds)| seconds)
            }));
        }
        jobs.push(deliver("one outbox", 1, Way::Polled));
        jobs.push(deliver("64 outboxes", 64, Way::Polled));
        jobs.push(deliver("64 outboxes, told instead of observed", 64, Way::Pushed));
        println!("{concurrency} at once");
        compare(dir.path(), runs, (count(messages), "messages"), &jobs)?;
    }
    Ok(())
}

/// How a host learns that a destination is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It asks twice.
    Polled,
    /// It is told, and asks once.
    Pushed,
}

#[derive(Clone, Copy)]
struct Plan {
    concurrency: usize,
    outboxes: usize,
    messages: usize,
    way: Way,
}

impl Plan {
    /// Prepares messages from so many tasks while a driver delivers them; how many seconds it takes
    /// until all of it is in the log.
    fn deliver(&self, runtime: &Runtime, path: &Path) -> Result<f64, String> {
        let log = SqliteLog::open(path.join("log.db")).map_err(|error| error.to_string())?;
        let (host, mut admitted) = Host::new(self);
        let host = Arc::new(host);
        let limits = OutboxLimits {
            max_pending_per_owner: 1 << 30,
            max_retained_per_owner: 1 << 30,
            ..OutboxLimits::default()
        };
        let recount = Recount::builder(Arc::new(log), host.clone())
            .clock(Arc::new(SystemClock))
            .concurrency(self.concurrency)
            .limits(limits);
        let recount = runtime.block_on(recount.build()).map_err(|error| error.to_string())?;
        let (told, time) = timed(|| {
            runtime.block_on(async {
                let tasks = (0..self.concurrency).map(|task| {
                    let (plan, outboxes) = (*self, recount.outboxes().clone());
                    tokio::spawn(async move { plan.prepare(task, &outboxes).await })
                });
                let tasks: Vec<_> = tasks.collect();
                let (plan, outboxes) = (*self, recount.outboxes().clone());
                let tell = tokio::spawn(async move {
                    while plan.way == Way::Pushed
                        && let Some(number) = admitted.recv().await
                    {
                        let outboxes = outboxes.clone();
                        tokio::spawn(async move { outboxes.settled(&plan.key(number)).await });
                    }
                });
                let (recount, host) = (recount.clone(), host.clone());
                let driver = tokio::spawn(async move { recount.run(host.all.notified()).await });
                let (prepared, ended) = join(join_all(tasks), driver).await;
                tell.abort();
                ended.map_err(|error| error.to_string())?;
                prepared.into_iter().try_for_each(|task| task.map_err(|error| error.to_string())?)
            })
        });
        told?;
        let left = runtime.block_on(recount.deliveries().upcoming(None, BatchSize::MAX));
        if !left.map_err(|error| error.to_string())?.is_empty() {
            return Err("not all of it was delivered".to_owned());
        }
        Ok(time.as_secs_f64())
    }

    async fn prepare(&self, task: usize, outboxes: &OutboxService) -> Result<(), String> {
        for number in (task..self.messages).step_by(self.concurrency) {
            let message = self.message(number);
            outboxes.send(message).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn key(&self, number: usize) -> MessageDeliveryKey {
        let owner = ThreadId::new(format!("sender-{}", number % self.outboxes));
        MessageDeliveryKey {
            owner_thread_id: owner.expect("an id"),
            message_id: MessageId::new(format!("m-{number}")).expect("an id"),
        }
    }

    fn message(&self, number: usize) -> NewMessage {
        let settlement_poll_millis = if self.way == Way::Polled { 1 } else { 60_000 };
        NewMessage {
            key: self.key(number),
            envelope: envelope(number),
            lifetime_millis: 3_600_000,
            policy: MessageDeliveryPolicy { settlement_poll_millis, ..Default::default() },
            predecessor: None,
        }
    }
}

/// An envelope with some 500 bytes of JSON, as the jobs of the queue have.
fn envelope(number: usize) -> PreparedInput {
    let text = "what the agent is to do, in some words, and not in few of them; ".repeat(7);
    let input = PersistedJson::from_value(&json!({"number": number, "text": text}));
    let input = input.expect("the input is small");
    let mut envelope = doc::envelope(&format!("admit:{number}"));
    envelope.input_digest = input.digest();
    envelope.input = input;
    envelope
}

/// Destinations that answer at once, and a count of what they are done with.
struct Host {
    way: Way,
    messages: usize,
    settled: AtomicUsize,
    all: Notify,
    /// Messages that were asked about once.
    asked: Vec<AtomicUsize>,
    admitted: UnboundedSender<usize>,
}

impl Host {
    fn new(plan: &Plan) -> (Self, UnboundedReceiver<usize>) {
        let (admitted, told) = unbounded_channel();
        let host = Self {
            way: plan.way,
            messages: plan.messages,
            settled: AtomicUsize::new(0),
            all: Notify::new(),
            asked: (0..plan.messages).map(|_| AtomicUsize::new(0)).collect(),
            admitted,
        };
        (host, told)
    }

    fn status(&self, receipt: &Receipt) -> SubmissionStatus {
        let number = number_of(&receipt.receipt_id);
        if self.way == Way::Polled && self.asked[number].fetch_add(1, Ordering::Relaxed) == 0 {
            return SubmissionStatus::Pending;
        }
        if self.settled.fetch_add(1, Ordering::Relaxed) + 1 == self.messages {
            self.all.notify_one();
        }
        let settlement: Settlement = serde_json::from_value(json!({
            "receiptId": receipt.receipt_id, "submissionId": receipt.submission_id,
            "settlementId": receipt.receipt_id, "outcome": "completed",
            "settledAt": "2026-01-01T00:00:00Z",
        }))
        .expect("a settlement");
        SubmissionStatus::Settled(Box::new(settlement))
    }
}

fn number_of(id: &str) -> usize {
    id.rsplit(':').next().and_then(|number| number.parse().ok()).expect("an id has a number")
}

impl Admission for Host {
    fn submit<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
        let key = &envelope.admission_key;
        // Nobody listens where it is not told.
        self.admitted.send(number_of(key)).ok();
        let receipt = json!({
            "receiptId": key, "submissionId": key, "threadId": envelope.thread_id,
            "queueSequence": 1,
        });
        std::future::ready(Ok(serde_json::from_value(receipt).expect("a receipt"))).boxed()
    }

    fn submission_status<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Option<BoxFuture<'a, Result<SubmissionStatus, AdmissionError>>> {
        Some(std::future::ready(Ok(self.status(receipt))).boxed())
    }
}

/// Builds a job queue's program, and says where it is.
fn peer(name: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(name);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("peers");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "--target-dir"]).arg(&target);
    let built = cargo.current_dir(folder).status().map_err(|error| error.to_string())?;
    if built.success() {
        Ok(target.join("release").join(format!("recount-peer-{name}")))
    } else {
        Err(format!("the job queue {name} was not built: --no-peers leaves them out"))
    }
}

/// The same number of jobs through the job queue: what it is, and how many seconds it took.
fn jobs_of_peer(
    program: &Path,
    path: &Path,
    jobs: usize,
    concurrency: usize,
) -> Result<(String, f64), String> {
    let mut command = Command::new(program);
    command.arg("--db").arg(path.join("jobs.db"));
    command.args(["--jobs", &jobs.to_string(), "--concurrency", &concurrency.to_string()]);
    let output = command.output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stdout);
    let told = told.trim().rsplit_once(' ').filter(|_| output.status.success());
    told.and_then(|(name, seconds)| Some((name.to_owned(), seconds.parse().ok()?)))
        .ok_or_else(|| format!("the job queue failed: {}", String::from_utf8_lossy(&output.stderr)))
}
