//! One pass over the rows of a log: each is examined on any thread, and folded in order.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, mpsc},
    thread,
};

use recount_core::log::{Block, Line, Oversized, RowSource};

/// One line, as it comes to the fold.
#[derive(Debug)]
pub(crate) struct Scanned<T> {
    /// Where it begins in the text; `None` for a row of a table.
    pub(crate) offset: Option<u64>,
    /// What came of it.
    pub(crate) content: Content<T>,
}

/// What came of a line.
#[derive(Debug)]
pub(crate) enum Content<T> {
    /// It was examined.
    Examined(T),
    /// It is longer than a row can be.
    Oversized {
        /// How long it is.
        length: u64,
    },
}

/// Lines of one block, in order.
type Batch<T> = Vec<Scanned<T>>;

/// How many batches each thread has: one to fill, and some that wait for others before them.
const BATCHES: usize = 4;

/// Examines every line of a source on `jobs` threads, of which this one is the first, and folds
/// them in order on this one.
///
/// Memory is bounded by a few blocks a job. The first error of the source or the fold ends it.
pub(crate) fn scan<R, T, E>(
    source: R,
    jobs: usize,
    examine: impl Fn(Line<'_>) -> T + Sync,
    mut fold: impl FnMut(&Scanned<T>) -> Result<(), E>,
) -> Result<(), E>
where
    R: RowSource + Send,
    T: Send,
    E: From<io::Error>,
{
    let (blocks, examine) = (&Blocks::new(source), &examine);
    let (done, results) = mpsc::channel();
    thread::scope(move |scope| {
        // A batch comes back to the thread that filled it: what is freed there is freed quickly.
        let mut empties = Vec::new();
        for job in 1..jobs {
            let (empty, own) = mpsc::channel();
            (0..BATCHES).for_each(|_| empty.send(Batch::new()).expect("its job has not begun"));
            empties.push(empty);
            let done = done.clone();
            scope.spawn(move || {
                let mut block = Block::default();
                while let Ok(mut batch) = own.recv() {
                    let message = match blocks.next(&mut block) {
                        Ok(None) => return,
                        Ok(Some(number)) => {
                            examine_block(&block, examine, &mut batch);
                            Ok((number, (job, batch)))
                        }
                        Err(error) => Err(error),
                    };
                    if done.send(message).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut block = Block::default();
        let mut own: Vec<Batch<T>> = (0..BATCHES).map(|_| Batch::new()).collect();
        let mut waiting: BTreeMap<u64, (usize, Batch<T>)> = BTreeMap::new();
        let (mut next, mut is_done) = (0, false);
        loop {
            while let Some((job, batch)) = waiting.remove(&next) {
                next += 1;
                batch.iter().try_for_each(&mut fold)?;
                match job {
                    0 => own.push(batch),
                    // The job may be done by now.
                    job => drop(empties[job - 1].send(batch)),
                }
            }
            let message = match results.try_recv() {
                Ok(message) => message,
                // Whoever folds lends a hand while what comes next is not there yet.
                Err(_) if !is_done && let Some(mut batch) = own.pop() => {
                    let Some(number) = blocks.next(&mut block)? else {
                        is_done = true;
                        continue;
                    };
                    examine_block(&block, examine, &mut batch);
                    Ok((number, (0, batch)))
                }
                Err(_) => match results.recv() {
                    Ok(message) => message,
                    // The jobs are done, and so is this one.
                    Err(mpsc::RecvError) => return Ok(()),
                },
            };
            // An error drops `empties`, which ends the jobs that wait for a batch.
            let (number, batch) = message?;
            waiting.insert(number, batch);
        }
    })
}

/// The blocks of a source, numbered as they are taken.
struct Blocks<R>(Mutex<(u64, R)>);

impl<R: RowSource> Blocks<R> {
    fn new(source: R) -> Self {
        Self(Mutex::new((0, source)))
    }

    /// Fills a block and returns its number; `None` at the end.
    fn next(&self, block: &mut Block) -> io::Result<Option<u64>> {
        let mut numbered = self.0.lock().map_err(|_| io::Error::other("another job failed"))?;
        let number = numbered.0;
        numbered.0 += 1;
        Ok(numbered.1.next(block)?.then_some(number))
    }
}

fn examine_block<T>(block: &Block, examine: &impl Fn(Line<'_>) -> T, batch: &mut Batch<T>) {
    batch.clear();
    if let Some(Oversized { offset, length }) = block.oversized() {
        batch.push(Scanned { offset, content: Content::Oversized { length } });
    }
    batch.extend(
        block
            .lines()
            .map(|line| Scanned { offset: line.offset, content: Content::Examined(examine(line)) }),
    );
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use recount_core::log::jsonl::JsonlRows;

    use super::*;

    #[test]
    fn the_fold_sees_every_line_in_order_with_any_number_of_jobs() {
        let text: Vec<u8> = (0..300_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        for jobs in [1, 2, 3, 8] {
            let mut seen = 0_u64;
            let examine =
                |line: Line<'_>| std::str::from_utf8(line.bytes).unwrap().parse::<u64>().unwrap();
            scan(JsonlRows::new(&text[..]), jobs, examine, |line| {
                let Content::Examined(number) = line.content else { panic!("{line:?}") };
                assert_eq!(number, seen);
                seen += 1;
                Ok::<_, io::Error>(())
            })
            .unwrap();
            assert_eq!(seen, 300_000);
        }
    }

    #[test]
    fn an_error_of_the_source_ends_the_scan_and_is_returned() {
        struct Broken(u32);
        impl Read for Broken {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 > 300 {
                    return Err(io::Error::other("the disk is gone"));
                }
                into.fill(b'\n');
                Ok(into.len())
            }
        }
        for jobs in [1, 2] {
            let error = scan(JsonlRows::new(Broken(0)), jobs, |_| (), |_| Ok::<_, io::Error>(()))
                .unwrap_err();
            assert_eq!(error.to_string(), "the disk is gone");
        }
    }

    #[test]
    fn an_error_of_the_fold_ends_the_scan_and_is_returned() {
        let text = b"line\n".repeat(2_000_000);
        for jobs in [1, 2, 5] {
            let mut seen = 0;
            let result = scan(
                JsonlRows::new(&text[..]),
                jobs,
                |_| (),
                |_| {
                    seen += 1;
                    if seen == 700_000 { Err(io::Error::other("enough")) } else { Ok(()) }
                },
            );
            assert_eq!(result.unwrap_err().to_string(), "enough");
            assert_eq!(seen, 700_000);
        }
    }
}
