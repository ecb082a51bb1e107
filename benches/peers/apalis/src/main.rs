//! So many jobs through apalis with SQLite, each durable before its producer goes on.
//!
//! `recount-peer-apalis --db PATH --jobs N --concurrency C` prints `NAME VERSION SECONDS`: from the first push
//! until the last job is done in the database.

use std::{
    error::Error,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage};
use futures::channel::mpsc;
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use tokio::sync::Notify;

type Failure = Box<dyn Error + Send + Sync>;

/// A job with some 500 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    number: usize,
    text: String,
}

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
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let measured = runtime.map_err(Failure::from).and_then(|runtime| {
        let arguments = arguments()?;
        runtime.block_on(measure(&arguments))
    });
    match measured {
        Ok(seconds) => {
            println!("apalis-sqlite {} {seconds:.4}", version());
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
    let package = lock.split("name = \"apalis-sqlite\"\nversion = \"").nth(1);
    package.and_then(|rest| rest.split('"').next()).unwrap_or("?")
}

/// Connections that wait for the disk at each commit, as the other side's do.
async fn open(arguments: &Arguments) -> Result<SqlitePool, Failure> {
    let options = SqliteConnectOptions::new()
        .filename(&arguments.db)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(30));
    // One, four and eight were tried: a single one makes the worker wait for the producers.
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
    // Not `setup`, which makes the connection forget the disk (`synchronous = OFF`).
    SqliteStorage::migrations().run(&pool).await?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&pool).await?;
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&pool).await?;
    if (synchronous, &*journal) != (2, "wal") {
        return Err(format!("synchronous is {synchronous}, journal_mode {journal}").into());
    }
    Ok(pool)
}

async fn measure(arguments: &Arguments) -> Result<f64, Failure> {
    let Arguments { jobs, concurrency, .. } = *arguments;
    let pool = open(arguments).await?;
    // A hundred jobs are fetched in a commit, which is when they are taken, and acknowledged in one.
    let config = Config::default().queue("jobs").batch_size(100).lock_tasks(false);
    let storage = SqliteStorage::<Job>::new(&pool).with_config(config);

    // The worker looks when it is told of a job, and else every few milliseconds.
    let (told, listener) = mpsc::unbounded::<()>();
    let strategy = Strategy::new().stream(listener).interval(Duration::from_millis(5));
    let done = Arc::new((AtomicUsize::new(0), Notify::new()));
    let counted = Arc::clone(&done);
    let worker = WorkerBuilder::new("worker")
        .backend(storage.clone().poll_with_strategy(strategy))
        .concurrency(concurrency)
        .build(move |job: Job| {
            let counted = Arc::clone(&counted);
            async move {
                std::hint::black_box((&job.number, &job.text));
                if counted.0.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                    counted.1.notify_one();
                }
                Ok::<_, Failure>(())
            }
        });

    let began = Instant::now();
    let worker = tokio::spawn(worker.run());
    let producers = (0..concurrency).map(|producer| {
        let (mut storage, told) = (storage.clone(), told.clone());
        tokio::spawn(async move {
            for number in (producer..jobs).step_by(concurrency) {
                let text = "what the agent is to do, in some words, and not in few of them; ";
                storage.push(Job { number, text: text.repeat(7) }).await?;
                told.unbounded_send(())?;
            }
            Ok::<_, Failure>(())
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await??;
    }
    done.1.notified().await;
    // To have run is not to be done: what is acknowledged is in the table.
    while done_in(&pool).await? < jobs {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    worker.abort();
    Ok(seconds)
}

async fn done_in(pool: &SqlitePool) -> Result<usize, Failure> {
    let count = "SELECT count(*) FROM Jobs WHERE status = 'Done'";
    let count: i64 = sqlx::query_scalar(count).fetch_one(pool).await?;
    Ok(usize::try_from(count)?)
}
