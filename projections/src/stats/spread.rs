//! How numbers are spread, in a memory that does not grow with them.

use hdrhistogram::Histogram;
use recount_core::Instant;
use serde::Serialize;

/// How numbers are spread. Percentiles are right to one part in a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of any such summary")]
pub struct Spread {
    pub count: u64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
    /// Rounded to the nearest.
    pub mean: u64,
}

/// Numbers, in a memory that does not grow with them.
pub(super) struct Numbers {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Numbers {
    fn default() -> Self {
        // Every count and span of milliseconds has a place, so that none is recorded as another.
        let histogram = Histogram::new_with_max(1 << 53, 3).expect("these are bounds");
        Self { histogram, min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Numbers {
    pub(super) fn add(&mut self, number: u64) {
        self.histogram.saturating_record(number);
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        self.sum += u128::from(number);
    }

    /// Adds the length of a span in milliseconds; one that ends before it begins is counted apart.
    pub(super) fn add_span(&mut self, (from, to): (Instant, Instant), went_back: &mut u64) {
        match to.as_millis().checked_sub(from.as_millis()) {
            Some(millis) => self.add(millis),
            None => *went_back += 1,
        }
    }

    pub(super) fn spread(&self) -> Spread {
        let count = self.histogram.len();
        if count == 0 {
            return Spread::default();
        }
        // A bucket may end past the largest number that is in it.
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(self.min, self.max);
        let mean = (self.sum + u128::from(count) / 2) / u128::from(count);
        Spread {
            count,
            min: self.min,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: self.max,
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
        }
    }
}
