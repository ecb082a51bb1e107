//! One pass over a text of lines: each line is examined on any thread, and folded in order.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    sync::{Mutex, mpsc},
    thread,
};

use recount_core::log::jsonl::{Block, BlockReader, Line, Oversized};

/// One line, as it comes to the fold.
#[derive(Debug)]
pub(crate) struct Scanned<T> {
    /// Where it begins in the text.
    pub(crate) offset: u64,
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

/// Examines every line of a source on `jobs` threads and folds them in order on this one.
///
/// With one job everything happens on this thread. Memory is bounded by a few blocks a job. The
/// first error of the source or the fold ends it.
pub(crate) fn scan<R, T, E>(
    source: R,
    jobs: usize,
    examine: impl Fn(Line<'_>) -> T + Sync,
    mut fold: impl FnMut(&Scanned<T>) -> Result<(), E>,
) -> Result<(), E>
where
    R: Read + Send,
    T: Send,
    E: From<io::Error>,
{
    let mut reader = BlockReader::new(source);
    if jobs <= 1 {
        let mut block = Block::default();
        let mut batch = Batch::new();
        while reader.next(&mut block)? {
            examine_block(&block, &examine, &mut batch);
            batch.iter().try_for_each(&mut fold)?;
            batch.clear();
        }
        return Ok(());
    }
    scan_side_by_side(reader, jobs, &examine, fold)
}

fn scan_side_by_side<R, T, E>(
    reader: BlockReader<R>,
    jobs: usize,
    examine: &(impl Fn(Line<'_>) -> T + Sync),
    mut fold: impl FnMut(&Scanned<T>) -> Result<(), E>,
) -> Result<(), E>
where
    R: Read + Send,
    T: Send,
    E: From<io::Error>,
{
    let numbered = Mutex::new((0_u64, reader));
    // A job takes an empty batch before it takes a block: so many blocks are under way at most,
    // and whoever has the next one in order always has what it needs to finish it.
    let (empty, empties) = mpsc::channel::<Batch<T>>();
    let empties = Mutex::new(empties);
    let (done, results) = mpsc::channel();
    for _ in 0..2 * jobs {
        empty.send(Batch::new()).expect("the receiver lives on");
    }
    let (numbered, empties) = (&numbered, &empties);
    thread::scope(move |scope| {
        for _ in 0..jobs {
            let (numbered, empties, done) = (numbered, empties, done.clone());
            scope.spawn(move || {
                let mut block = Block::default();
                loop {
                    let taken = empties.lock().map(|empties| empties.recv());
                    let Ok(Ok(mut batch)) = taken else { return };
                    let next = {
                        let Ok(mut numbered) = numbered.lock() else { return };
                        let number = numbered.0;
                        numbered.0 += 1;
                        numbered.1.next(&mut block).map(|more| more.then_some(number))
                    };
                    let message = match next {
                        Ok(Some(number)) => {
                            examine_block(&block, examine, &mut batch);
                            Ok((number, batch))
                        }
                        Ok(None) => return,
                        Err(error) => Err(error),
                    };
                    let is_last = message.is_err();
                    if done.send(message).is_err() || is_last {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        while let Ok(message) = results.recv() {
            // An error drops `empty`, which ends the jobs that wait for a batch.
            let (number, batch) = message?;
            waiting.insert(number, batch);
            while let Some(mut batch) = waiting.remove(&next) {
                next += 1;
                batch.iter().try_for_each(&mut fold)?;
                batch.clear();
                // The jobs may all be done by now.
                let _ = empty.send(batch);
            }
        }
        Ok(())
    })
}

fn examine_block<T>(block: &Block, examine: &impl Fn(Line<'_>) -> T, batch: &mut Batch<T>) {
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
    use super::*;

    #[test]
    fn the_fold_sees_every_line_in_order_with_any_number_of_jobs() {
        let text: Vec<u8> = (0..300_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        for jobs in [1, 2, 3, 8] {
            let mut seen = 0_u64;
            let examine =
                |line: Line<'_>| std::str::from_utf8(line.bytes).unwrap().parse::<u64>().unwrap();
            scan(&text[..], jobs, examine, |line| {
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
            let error = scan(Broken(0), jobs, |_| (), |_| Ok::<_, io::Error>(())).unwrap_err();
            assert_eq!(error.to_string(), "the disk is gone");
        }
    }

    #[test]
    fn an_error_of_the_fold_ends_the_scan_and_is_returned() {
        let text = b"line\n".repeat(2_000_000);
        for jobs in [1, 2, 5] {
            let mut seen = 0;
            let result = scan(
                &text[..],
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
