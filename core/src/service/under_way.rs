//! Which messages a process has attempts under way at, and what it is told of them meanwhile.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::delivery::MessageDeliveryKey;

/// The attempts that are under way in a process: a few dozen at most.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<Vec<Entry>>>);

type Entry = (MessageDeliveryKey, Arc<AtomicBool>);

/// An attempt, which is under way until this is ended or dropped.
pub(super) struct UnderWayGuard<'a> {
    all: &'a UnderWay,
    is_told: Arc<AtomicBool>,
}

impl UnderWay {
    pub(super) fn begin(&self, key: &MessageDeliveryKey) -> UnderWayGuard<'_> {
        let is_told = Arc::<AtomicBool>::default();
        self.entries().push((key.clone(), Arc::clone(&is_told)));
        UnderWayGuard { all: self, is_told }
    }

    /// Tells the attempts at a message that there is something to see; whether there were any.
    pub(super) fn tell(&self, key: &MessageDeliveryKey) -> bool {
        let entries = self.entries();
        let told = entries.iter().filter(|(of, _)| of == key);
        told.map(|(_, is_told)| is_told.store(true, Ordering::Relaxed)).count() > 0
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        // The entries are whole between any two calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWayGuard<'_> {
    /// Ends it, and returns whether it was told anything. Nobody can tell it from here on.
    pub(super) fn end(self) -> bool {
        let is_told = Arc::clone(&self.is_told);
        drop(self);
        is_told.load(Ordering::Relaxed)
    }
}

impl Drop for UnderWayGuard<'_> {
    fn drop(&mut self) {
        self.all.entries().retain(|(_, is_told)| !Arc::ptr_eq(is_told, &self.is_told));
    }
}
