//! JSON Lines that are compressed with zstd, in frames that each end with a row.
//!
//! A frame ends at the first line end at which it has [`FRAME_BYTES`] of text or more, and has its
//! length and a checksum. So the frames of a text are the same however it was written, and where
//! the writing was interrupted, it goes on behind the last whole frame.

mod destination;
mod frames;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use destination::ZstdDestination;
pub use reader::ZstdReader;
pub use writer::ZstdWriter;

/// How much text a frame has at least, but the last one: 1 MiB.
///
/// Of a log of 131 MB, frames of 64 KiB make a file of 31.1 MB, 256 KiB 28.4, 1 MiB 24.8, 4 MiB
/// 22.5, one for all 21.7, at about the same speed. Reading and writing hold one frame, and an
/// interruption loses one at most.
const FRAME_BYTES: usize = 1 << 20;

/// The level of compression.
const LEVEL: i32 = 3;
