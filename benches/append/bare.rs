//! The yardstick: a bare file, with the same queue and the same syncs as a log.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

type Request = (Vec<u8>, oneshot::Sender<()>);

/// A file of lengths, checksums and bytes, written by one thread in groups.
pub(crate) struct BareFile {
    requests: Option<Sender<Request>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl BareFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create_new(path)?;
        let (requests, queue) = mpsc::channel();
        let writer = thread::spawn(move || write(file, &queue));
        Ok(Self { requests: Some(requests), writer: Some(writer) })
    }

    /// Appends bytes and waits until they are durable.
    pub(crate) async fn append(&self, bytes: Vec<u8>) {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().expect("there until the drop");
        requests.send((bytes, reply)).expect("the thread is there");
        answer.await.expect("the thread answers");
    }
}

impl Drop for BareFile {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(writer) = self.writer.take() {
            writer.join().expect("it does not panic").expect("the disk takes it");
        }
    }
}

fn write(mut file: File, queue: &Receiver<Request>) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Ok(first) = queue.recv() {
        let mut replies = Vec::new();
        buffer.clear();
        for (bytes, reply) in [first].into_iter().chain(queue.try_iter()) {
            let length = u32::try_from(bytes.len()).expect("the events are small");
            buffer.extend_from_slice(&length.to_le_bytes());
            buffer.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
            buffer.extend_from_slice(&bytes);
            replies.push(reply);
        }
        file.write_all(&buffer)?;
        file.sync_data()?;
        for reply in replies {
            let _ = reply.send(());
        }
    }
    Ok(())
}
