//! Numbers that a seed fixes: `SplitMix64`.

/// A source of numbers; the same seed gives the same numbers everywhere.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound that is not zero. That it leans towards the low ones by the bound's
    /// share of 2^64 does no harm here.
    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number of a range, both ends included.
    pub(super) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True so many times in a thousand.
    pub(super) const fn in_thousand(&mut self, times: u64) -> bool {
        self.below(1_000) < times
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let length = u64::try_from(of.len()).expect("a length is a u64");
        of[usize::try_from(self.below(length)).expect("an index is a usize")]
    }
}
