//! The thread that writes: many batches, one write, one sync.

#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(windows)]
use std::os::windows::fs::FileExt;
use std::{fmt::Debug, fs::File, io, path::Path, sync::Arc};

use tokio::sync::watch;

use super::log::{End, Rows, Slot};
use crate::{
    StreamName,
    log::{
        AppendError, Appended, MAX_APPENDED_ROW_BYTES,
        admission::Admission,
        file::sync_directory_of,
        indexed::Indexed,
        queue::{Reply, Request},
    },
    write_row,
};

/// What the rows are written to.
pub(super) trait Storage: Debug + Send + 'static {
    /// Writes bytes at the end, which is at this offset.
    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes durable what was written, and the length.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts off what is behind a length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes durable that the file has its name.
    fn sync_name(&mut self, path: &Path) -> io::Result<()> {
        sync_directory_of(path)
    }
}

/// A file that is locked as long as this is there, whoever else has a handle of it.
#[derive(Debug)]
pub(super) struct Locked(pub(super) File);

impl Storage for Locked {
    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_at(&self.0, bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Where this fails, the lock ends with the last handle.
        let _ = self.0.unlock();
    }
}

/// Writes batches and answers them.
#[derive(Debug)]
pub(super) struct Committer<S> {
    storage: S,
    indexed: Arc<Indexed<Rows>>,
    committed: watch::Sender<usize>,
    end: End,
    is_closed: bool,
}

/// What was judged and waits for the disk.
struct Judged {
    stream: StreamName,
    reply: Reply,
    answer: Result<Appended, AppendError>,
    /// How many events must be durable for the answer to hold.
    after: u64,
}

impl<S: Storage> Committer<S> {
    pub(super) fn new(
        storage: S,
        indexed: Arc<Indexed<Rows>>,
        committed: watch::Sender<usize>,
        end: End,
    ) -> Self {
        Self { storage, indexed, committed, end, is_closed: false }
    }

    pub(super) fn commit(&mut self, group: Vec<Request>) {
        if self.is_closed {
            for request in group {
                request.into_parts().1.answer(Err(AppendError::Closed));
            }
            return;
        }
        let bytes: usize = group.iter().map(Request::size).sum();
        let mut text = Vec::with_capacity(bytes + bytes / 4);
        let judged: Vec<_> =
            group.into_iter().map(|request| self.judge(request, &mut text)).collect();
        let outcome = if text.is_empty() { Ok(()) } else { self.write(&text) };
        let durable = self.indexed.index().committed() as u64;
        for Judged { stream, reply, answer, after } in judged {
            reply.answer(match &outcome {
                Err(error) if after > durable => Err(self.failure(stream, error)),
                _ => answer,
            });
        }
    }

    /// Judges one batch by those before it, and puts its rows behind theirs.
    fn judge(&self, request: Request, text: &mut Vec<u8>) -> Judged {
        let (batch, reply) = request.into_parts();
        let stream = batch.stream().clone();
        let mut index = self.indexed.index_mut();
        let first_position = match index.admit(&batch, MAX_APPENDED_ROW_BYTES) {
            Admission::Known { answer, after } => return Judged { stream, reply, answer, after },
            Admission::New(first_position) => first_position,
        };
        if text.is_empty() && !self.end.is_ended {
            text.push(b'\n');
        }
        for event in batch.events() {
            let start = text.len();
            write_row(text, index.next_position(), event);
            let offset = self.end.length + start as u64;
            index.push(event, Slot { offset, length: text.len() - start - 1 });
        }
        let answer = Ok(Appended { head: batch.head(), first_position });
        Judged { stream, reply, answer, after: index.length() as u64 }
    }

    /// Makes rows durable and visible, or takes them back.
    fn write(&mut self, text: &[u8]) -> Result<(), Arc<io::Error>> {
        let written = self.storage.write(text, self.end.length).and_then(|()| self.storage.sync());
        let mut index = self.indexed.index_mut();
        let Err(error) = written else {
            self.end = End { length: self.end.length + text.len() as u64, is_ended: true };
            self.committed.send_replace(index.commit());
            return Ok(());
        };
        index.roll_back();
        drop(index);
        let undone = self.storage.truncate(self.end.length).and_then(|()| self.storage.sync());
        self.is_closed = undone.is_err();
        Err(Arc::new(error))
    }

    fn failure(&self, stream: StreamName, error: &Arc<io::Error>) -> AppendError {
        let source = Box::new(Arc::clone(error));
        if self.is_closed {
            AppendError::OutcomeUnknown { stream, source }
        } else {
            AppendError::Storage { source }
        }
    }
}

/// Reads from an offset, until the buffer is full or the file ends.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        #[cfg(unix)]
        let read = file.read_at(&mut buffer[done..], offset + done as u64);
        #[cfg(windows)]
        let read = file.seek_read(&mut buffer[done..], offset + done as u64);
        match read {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all bytes at an offset; where the handle's own cursor stands does not matter.
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        #[cfg(unix)]
        let written = file.write_at(&bytes[done..], offset + done as u64);
        #[cfg(windows)]
        let written = file.seek_write(&bytes[done..], offset + done as u64);
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
