//! Reads untrusted archives, and creates files under untrusted names.
//!
//! [`Entries`] reads a tar with a bound on everything that it holds in memory. [`Beneath`] creates
//! files below one open directory, whatever they are called and whatever links lie on the way. The
//! limits of size and number, and what to do with modes and links, are the caller's.

mod beneath;
mod entries;
mod sparse;

pub use beneath::{BadPath, Beneath, MAX_DEPTH, RelativePath, open_directory};
pub use entries::{Entries, Entry};
pub use sparse::Sparse;
