//! wip
/// wip
#[derive(Debug)]
pub struct MemoryLog;
