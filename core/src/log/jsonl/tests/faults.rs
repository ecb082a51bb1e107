//! Disks that fail.

use std::{
    io,
    sync::{Mutex, mpsc},
    time::Duration,
};

use super::{
    super::commit::{Locked, Storage},
    *,
};
use crate::log::{AppendError, Appended};

/// How long a write waits for a test that has failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What goes wrong from now on, and what was done.
#[derive(Debug, Default)]
struct Plan {
    /// How much can still be written.
    room: Option<usize>,
    /// How many syncs fail.
    failing_syncs: usize,
    is_truncate_failing: bool,
    syncs: usize,
}

#[derive(Debug)]
struct Faulty {
    file: Locked,
    plan: Arc<Mutex<Plan>>,
    /// Told at each write, which then waits until it is let through.
    arrived: mpsc::Sender<()>,
    pass: mpsc::Receiver<()>,
}

impl Storage for Faulty {
    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Where the test does not listen, everything passes.
        let _ = self.arrived.send(());
        let _ = self.pass.recv_timeout(PATIENCE);
        let room = self.plan.lock().unwrap().room.unwrap_or(usize::MAX);
        self.file.write(&bytes[..room.min(bytes.len())], offset)?;
        if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut plan = self.plan.lock().unwrap();
        plan.syncs += 1;
        if plan.failing_syncs > 0 {
            plan.failing_syncs -= 1;
            return Err(io::Error::other("the disk is gone"));
        }
        self.file.sync()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.plan.lock().unwrap().is_truncate_failing {
            return Err(io::Error::other("the disk is gone"));
        }
        self.file.truncate(length)
    }
}

/// The channels go before the log, whose thread may wait for them.
struct Bench {
    arrived: mpsc::Receiver<()>,
    pass: mpsc::Sender<()>,
    plan: Arc<Mutex<Plan>>,
    log: JsonlLog,
}

impl Bench {
    fn open(sample: &Sample) -> Self {
        let plan = Arc::new(Mutex::new(Plan::default()));
        let ((arrived, is_arrived), (let_pass, pass)) = (mpsc::channel(), mpsc::channel());
        let wrap = |file| Faulty { file, plan: Arc::clone(&plan), arrived, pass };
        let log = JsonlLog::open_with(&sample.path, wrap).unwrap();
        Self { arrived: is_arrived, pass: let_pass, plan, log }
    }

    fn plan(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan.lock().unwrap());
    }

    async fn append(&self, batch: &EventBatch) -> Result<Appended, AppendError> {
        self.pass.send(()).unwrap();
        self.log.append(batch.clone()).await
    }

    /// Submits batches while the thread waits with another, so that they are one group.
    async fn append_as_group(
        &self,
        other: &EventBatch,
        batches: &[&EventBatch],
        change: impl FnOnce(&mut Plan),
    ) -> Vec<Result<Appended, AppendError>> {
        let other = self.log.append(other.clone());
        self.arrived.recv_timeout(PATIENCE).unwrap();
        let answers: Vec<_> = batches.iter().map(|it| self.log.append((*it).clone())).collect();
        self.pass.send(()).unwrap();
        other.await.unwrap();
        self.arrived.recv_timeout(PATIENCE).unwrap();
        self.plan(change);
        self.pass.send(()).unwrap();
        futures_util::future::join_all(answers).await
    }
}

#[tokio::test]
async fn many_batches_are_one_write_and_one_sync() {
    let sample = Sample::new(b"");
    let bench = Bench::open(&sample);
    let many: Vec<_> =
        (0..100).map(|of| batch(&format!("delivery-{of}"), None, &["1", "2"])).collect();
    let first = batch("delivery-first", None, &["1"]);
    let many: Vec<_> = many.iter().collect();
    let answers = bench.append_as_group(&first, &many, |plan| plan.syncs = 0).await;
    for (answer, position) in answers.into_iter().zip((1..).step_by(2)) {
        assert_eq!(answer.unwrap().first_position.get(), position);
    }
    assert_eq!(bench.plan.lock().unwrap().syncs, 1);
    assert_eq!(all(&bench.log).await.len(), 201);
}

#[tokio::test]
async fn nothing_is_seen_before_it_is_durable() {
    let sample = Sample::new(&three_rows());
    let bench = Bench::open(&sample);
    let [a, _] = three();
    let next = bench.log.append(next_of(&a));
    bench.arrived.recv_timeout(PATIENCE).unwrap();
    assert_eq!(all(&bench.log).await.len(), 3);
    let last = bench.log.read_stream(a.stream(), None, Direction::Backward, 1).next().await;
    assert_eq!(last.unwrap().unwrap().event, a.events()[1]);
    assert_eq!(bench.log.head().await.unwrap().unwrap().position.get(), 2);
    let mut live = bench.log.subscribe(Position::new(3).unwrap());
    assert!(live.next().now_or_never().is_none());
    bench.pass.send(()).unwrap();
    next.await.unwrap();
    assert_eq!(live.next().await.unwrap().unwrap().event, next_of(&a).events()[0]);
    assert_eq!(all(&bench.log).await.len(), 4);
}

#[tokio::test]
async fn a_full_disk_appends_nothing_and_the_log_goes_on() {
    let text = three_rows();
    for text in [&text[..], &text[..text.len() - 1]] {
        fill_up(text).await;
    }
}

async fn fill_up(text: &[u8]) {
    let sample = Sample::new(text);
    let bench = Bench::open(&sample);
    let next = next_of(&three()[0]);
    bench.plan(|plan| plan.room = Some(100));
    match bench.append(&next).await {
        Err(error @ AppendError::Storage { .. }) => {
            assert_eq!(error.to_string(), "the log could not be written, nothing was appended");
            let source = std::error::Error::source(&error).unwrap();
            assert_eq!(source.to_string(), "no storage space");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(sample.text(), text);
    assert_eq!(all(&bench.log).await.len(), 3);
    bench.plan(|plan| plan.room = None);
    assert_eq!(bench.append(&next).await.unwrap().first_position.get(), 3);
    let [a, b] = three();
    assert_eq!(sample.text(), rows(&[&a, &b, &next]));
    assert_eq!(all(&bench.log).await.len(), 4);
}

/// Batches whose answers depend on one another.
async fn answers_where_the_group_fails(
    bench: &Bench,
    change: impl FnOnce(&mut Plan),
) -> Vec<Result<Appended, AppendError>> {
    let [a, b] = three();
    let stale = batch("delivery-b", None, &["stale"]);
    let next = next_of(&a);
    let behind = next_of(&next);
    let beside = batch("delivery-a", Some(a.head()), &["beside"]);
    let first = batch("delivery-first", None, &["1"]);
    bench.append_as_group(&first, &[&b, &stale, &next, &behind, &next, &beside], change).await
}

#[tokio::test]
async fn a_failed_sync_is_told_to_those_who_hang_on_it() {
    let sample = Sample::new(&three_rows());
    let bench = Bench::open(&sample);
    let answers = answers_where_the_group_fails(&bench, |plan| plan.failing_syncs = 1).await;
    let [repeat, stale, on_disk @ ..] = &answers[..] else { unreachable!() };
    assert_eq!(repeat.as_ref().unwrap().first_position.get(), 2);
    assert!(matches!(stale, Err(AppendError::Conflict { .. })), "{stale:?}");
    for answer in on_disk {
        assert!(matches!(answer, Err(AppendError::Storage { .. })), "{answer:?}");
    }
    let [a, b] = three();
    let first = batch("delivery-first", None, &["1"]);
    assert_eq!(sample.text(), rows(&[&a, &b, &first]));
    assert_eq!(bench.append(&next_of(&a)).await.unwrap().first_position.get(), 4);
}

#[tokio::test]
async fn what_cannot_be_undone_is_unknown_and_settled_by_opening_again() {
    let sample = Sample::new(&three_rows());
    let bench = Bench::open(&sample);
    let lost = |plan: &mut Plan| (plan.failing_syncs, plan.is_truncate_failing) = (1, true);
    let answers = answers_where_the_group_fails(&bench, lost).await;
    let [repeat, stale, on_disk @ ..] = &answers[..] else { unreachable!() };
    assert_eq!(repeat.as_ref().unwrap().first_position.get(), 2);
    assert!(matches!(stale, Err(AppendError::Conflict { .. })), "{stale:?}");
    for answer in on_disk {
        let Err(error @ AppendError::OutcomeUnknown { .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(std::error::Error::source(error).unwrap().to_string(), "the disk is gone");
    }
    // It answers nothing more, and can be read.
    let next = next_of(&three()[0]);
    let closed = bench.append(&next).await;
    assert!(matches!(closed, Err(AppendError::Closed)), "{closed:?}");
    assert_eq!(all(&bench.log).await.len(), 4);
    drop(bench);

    let log = JsonlLog::open(&sample.path).unwrap();
    assert_eq!(log.append(next).await.unwrap().first_position.get(), 4);
}
