//! What files of any backend need.

use std::{fs::File, io, path::Path};

/// Makes a file's name durable: without this, a crash could take a new file as a whole.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
