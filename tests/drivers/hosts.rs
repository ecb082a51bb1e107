//! Hosts and clocks that do what they are told.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::{BoxFuture, FutureExt as _};
use recount::{
    Envelope, Instant, Receipt, Settlement,
    delivery::RetryReason,
    service::{Admission, AdmissionError, Clock, SubmissionStatus},
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

use crate::support::histories::millis;

/// A clock that stands until it is set, and whose waits are over at once.
#[derive(Clone, Default)]
pub(crate) struct SetClock(Arc<AtomicU64>);

impl SetClock {
    pub(crate) fn set(&self, now: Instant) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Instant {
        millis(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: u64) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

/// The same clock, whose waits are never over.
pub(crate) struct Patient(pub(crate) SetClock);

impl Clock for Patient {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep(&self, _: u64) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }
}

/// What a host was asked, and what it answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Asked {
    pub(crate) call: String,
    pub(crate) admission_key: Option<String>,
    pub(crate) receipt_id: Option<String>,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Outcome {
    #[serde(default)]
    advance_millis: u64,
    #[serde(default)]
    hang: bool,
    receipt: Option<Receipt>,
    refused: Option<String>,
    retryable: Option<RetryReason>,
    settlement: Option<Value>,
    status: Option<String>,
    storage: Option<String>,
}

/// A host that is asked what it expects, in order.
pub(crate) struct ScriptedHost {
    pub(crate) clock: SetClock,
    pub(crate) has_status: bool,
    pub(crate) script: Mutex<VecDeque<Asked>>,
}

impl ScriptedHost {
    fn next(&self, call: &str) -> Asked {
        let asked = self.script.lock().unwrap().pop_front();
        let asked = asked.unwrap_or_else(|| panic!("nothing is expected to be asked: {call}"));
        assert_eq!(asked.call, call);
        asked
    }

    /// Lets time go by, and fails where that is the outcome; never comes back where it hangs.
    async fn work(&self, outcome: &Outcome) -> Result<(), AdmissionError> {
        self.clock.advance(outcome.advance_millis);
        let diagnostic = None;
        if let Some(code) = &outcome.refused {
            return Err(AdmissionError::Refused { code: code.parse().unwrap(), diagnostic });
        }
        if let Some(reason) = outcome.retryable {
            return Err(AdmissionError::Retryable { reason, diagnostic });
        }
        match outcome.storage.as_deref() {
            Some("corrupt") => return Err(AdmissionError::Corrupt { diagnostic }),
            Some("unavailable") => return Err(AdmissionError::StorageAway { diagnostic }),
            Some(other) => panic!("{other}"),
            None => {}
        }
        if outcome.hang {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

impl Admission for ScriptedHost {
    fn submit<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
        async move {
            let asked = self.next("submit");
            assert_eq!(asked.admission_key.as_deref(), Some(&*envelope.admission_key));
            self.work(&asked.outcome).await?;
            Ok(asked.outcome.receipt.expect("a submission is answered with a receipt"))
        }
        .boxed()
    }

    fn submission_status<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Option<BoxFuture<'a, Result<SubmissionStatus, AdmissionError>>> {
        self.has_status.then(|| {
            async move {
                let asked = self.next("status");
                assert_eq!(asked.receipt_id.as_deref(), Some(&*receipt.receipt_id));
                self.work(&asked.outcome).await?;
                if let Some(settlement) = asked.outcome.settlement {
                    let settlement: Settlement = serde_json::from_value(settlement).unwrap();
                    return Ok(SubmissionStatus::Settled(Box::new(settlement)));
                }
                assert_eq!(asked.outcome.status.as_deref(), Some("pending"));
                Ok(SubmissionStatus::Pending)
            }
            .boxed()
        })
    }
}
