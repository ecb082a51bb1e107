//! So many jobs through honker, each durable before its producer goes on.
//!
//! `recount-peer-honker --db PATH --jobs N --concurrency C` prints `NAME VERSION SECONDS`: from the first
//! push until the last job is acknowledged in the database.

use std::{
    error::Error,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use honker::{Database, EnqueueOpts, QueueOpts};

type Failure = Box<dyn Error + Send + Sync>;

/// How many jobs are claimed, and acknowledged, in one commit.
const BATCH: i64 = 100;

struct Arguments {
    db: String,
    jobs: usize,
    concurrency: usize,
}

fn arguments() -> Result<Arguments, Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name);
        let value = at.and_then(|at| words.get(at + 1));
        value.ok_or_else(|| format!("{name} is missing: --db PATH --jobs N --concurrency C"))
    };
    Ok(Arguments {
        db: value("--db")?.clone(),
        jobs: value("--jobs")?.parse()?,
        concurrency: value("--concurrency")?.parse()?,
    })
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| measure(&arguments)) {
        Ok(seconds) => {
            println!("honker {} {seconds:.4}", version());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// The version that is locked.
fn version() -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let package = lock.split("name = \"honker\"\nversion = \"").nth(1);
    package.and_then(|rest| rest.split('"').next()).unwrap_or("?")
}

/// A handle that waits for the disk at each commit, as the other side does.
fn open(arguments: &Arguments) -> Result<Database, Failure> {
    let db = Database::open(&arguments.db)?;
    let (synchronous, journal) = db.with_conn(|connection| {
        // It opens with NORMAL, which leaves the last commits to the system.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
        let journal: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        Ok::<_, honker::Error>((synchronous, journal))
    })?;
    if (synchronous, &*journal) != (2, "wal") {
        return Err(format!("synchronous is {synchronous}, journal_mode {journal}").into());
    }
    Ok(db)
}

fn measure(arguments: &Arguments) -> Result<f64, Failure> {
    let Arguments { jobs, concurrency, .. } = *arguments;
    let db = open(arguments)?;
    // Beside one producer a worker is faster on a connection of its own, beside several on theirs.
    let of_worker = if concurrency == 1 { open(arguments)? } else { db.clone() };
    let began = Instant::now();
    thread::scope(|scope| {
        let producers: Vec<_> = (0..concurrency)
            .map(|producer| {
                let queue = db.queue("jobs", QueueOpts::default());
                scope.spawn(move || {
                    for number in (producer..jobs).step_by(concurrency) {
                        let text =
                            "what the agent is to do, in some words, and not in few of them; ";
                        let job = format!(r#"{{"number":{number},"text":"{}"}}"#, text.repeat(7));
                        queue.enqueue(&job, EnqueueOpts::default())?;
                    }
                    Ok::<_, honker::Error>(())
                })
            })
            .collect();
        work(&of_worker, jobs)?;
        for producer in producers {
            producer.join().map_err(|_| "a producer panicked")??;
        }
        Ok(began.elapsed().as_secs_f64())
    })
}

/// Claims what there is, runs it, and acknowledges it, until all jobs are done. It deletes a job that is
/// done, so what counts is how many it says it deleted.
fn work(db: &Database, jobs: usize) -> Result<(), Failure> {
    let queue = db.queue("jobs", QueueOpts::default());
    let commits = db.update_events();
    let (began, mut done) = (Instant::now(), 0);
    while done < jobs {
        let claimed = queue.claim_batch("worker", BATCH)?;
        if claimed.is_empty() {
            if began.elapsed() > Duration::from_mins(5) {
                return Err(format!("{done} of {jobs} jobs are done after 5 minutes").into());
            }
            commits.recv_timeout(Duration::from_millis(1))?;
            continue;
        }
        let ids: Vec<i64> = claimed.iter().map(|job| std::hint::black_box(job).id).collect();
        done += usize::try_from(queue.ack_batch(&ids, "worker")?)?;
    }
    Ok(())
}
