//! What `tracing` is told.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::FutureExt as _;
use recount::{
    Diagnostic,
    delivery::{MessageDeliveryStatus as Status, RetryReason},
    service::AdmissionError,
};
use recount_core::doc;

use super::{
    process::Destinations,
    running::{on_paused_time, running},
};
use crate::{
    processes::{child, part},
    support::histories::with_input,
};

/// What `tracing` was told, as text.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const TEST: &str = "drivers::traces::traces_name_operations_and_errors_and_never_what_is_delivered";

#[test]
fn traces_name_operations_and_errors_and_never_what_is_delivered() {
    // In a process of its own: what is listened to is decided once for all threads of one.
    if part().is_none() {
        let output = child(TEST, "traced", Path::new("-")).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
        return;
    }
    let told = Told::default();
    let writer = told.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        on_paused_time(async {
            let host = Destinations::with(|call| {
                let diagnostic = Some(Box::new(Diagnostic::text("the hidden page is bad")));
                let reason = RetryReason::Ambiguous;
                std::future::ready(match call {
                    0 => Err(AdmissionError::Corrupt { diagnostic }),
                    1 => Err(AdmissionError::Retryable { reason, diagnostic }),
                    _ => Ok(()),
                })
                .boxed()
            });
            let (process, _) = running(host);
            let mut message = with_input(doc::message("m-1"), r#"{"text":"hidden"}"#);
            message.envelope.delivery_principal = "hidden principal".parse().unwrap();
            process.service.prepare(message).await.unwrap();
            process.driver.run(tokio::time::sleep(Duration::from_mins(1))).await;
            assert_eq!(process.record("m-1").status, Status::Processed);
            process.driver.run_due(None).await.unwrap();
        });
    });
    let told = String::from_utf8(told.0.lock().unwrap().clone()).unwrap();
    assert!(!told.contains("hidden"), "{told}");
    for expected in [
        "delivery.process{key=sender/m-1}",
        "delivery.run_due",
        "an attempt failed key=sender/m-1 \
         error=\"the host's storage is corrupt, admission of sender/m-1\"",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}
