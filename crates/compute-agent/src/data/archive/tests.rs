//! Archives, well-meant and hostile.

use std::fs;

use super::*;
use crate::testing::any_disk;

const LIMIT: u64 = 1 << 20;

/// A tar of (kind, path, contents or link target); paths are written unchecked.
fn tar_of(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, path, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o600);
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        let body = match kind {
            EntryType::Link | EntryType::Symlink => {
                header.set_link_name_literal(text).unwrap();
                ""
            }
            _ => text,
        };
        header.set_size(body.len() as u64);
        header.set_cksum();
        builder.append(&header, body.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn files_directories_and_links_come_out_readable() {
    let dir = tempfile::tempdir().unwrap();
    let tar = tar_of(&[
        (EntryType::Directory, "d/", ""),
        (EntryType::Regular, "d/a", "hello"),
        (EntryType::Symlink, "l", "d/a"),
        (EntryType::Fifo, "pipe", ""),
    ]);
    unpack(&tar[..], dir.path(), LIMIT, Modes::Readable, &any_disk()).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("l")).unwrap(), "hello");
    let mode = fs::metadata(dir.path().join("d/a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert!(!dir.path().join("pipe").exists());
}

#[test]
fn no_entry_leaves_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let outside_text = outside.to_str().unwrap();
    for (name, entries) in [
        ("dots", &[(EntryType::Regular, "../outside/x", "bad")][..]),
        ("deep dots", &[(EntryType::Regular, "a/../../outside/x", "bad")]),
        (
            "through a link",
            &[(EntryType::Symlink, "l", outside_text), (EntryType::Regular, "l/x", "bad")],
        ),
        ("hard link", &[(EntryType::Link, "h", "../secret")]),
    ] {
        fs::write(dir.path().join("secret"), "secret").unwrap();
        let into = dir.path().join("into");
        let result = unpack(&tar_of(entries)[..], &into, LIMIT, Modes::Readable, &any_disk());
        assert!(result.is_err(), "{name}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{name}");
        fs::remove_dir_all(&into).unwrap();
    }
}

#[test]
fn an_absolute_path_stays_inside() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("into");
    let path = format!("{}/x", dir.path().display());
    unpack(
        &tar_of(&[(EntryType::Regular, &path, "kept")])[..],
        &into,
        LIMIT,
        Modes::Readable,
        &any_disk(),
    )
    .unwrap();
    assert!(!dir.path().join("x").exists());
    assert!(into.join(path.trim_start_matches('/')).exists());
}

#[test]
fn an_archive_beyond_the_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tar = tar_of(&[(EntryType::Regular, "a", "0123456789"), (EntryType::Regular, "b", "0")]);
    let error = unpack(&tar[..], dir.path(), 10, Modes::Readable, &any_disk()).unwrap_err();
    assert!(
        matches!(error, ArchiveError::TooLarge { limit_bytes: 10, least_bytes: 11 }),
        "{error}"
    );
}

#[test]
fn holes_of_a_result_take_no_space() {
    let dir = tempfile::tempdir().unwrap();
    let zeros = "\0".repeat(50 * CHUNK_BYTES);
    let tar = tar_of(&[(EntryType::Regular, "a", &zeros), (EntryType::Regular, "b", "0123456789")]);
    let bytes = CHUNK_BYTES as u64;
    let unpacked = unpack(
        &tar[..],
        &dir.path().join("with"),
        SizeLimit::with_holes(bytes),
        Modes::Kept,
        &any_disk(),
    );
    assert_eq!(unpacked.unwrap().bytes, 10);
    // What seems a hundred times as large, and the same in an input.
    for limit in [SizeLimit::with_holes(bytes / 4), SizeLimit::from(bytes)] {
        let into = dir.path().join("without");
        let error = unpack(&tar[..], &into, limit, Modes::Kept, &any_disk()).unwrap_err();
        assert!(matches!(error, ArchiveError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_cut_off_archive_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let tar = tar_of(&[(EntryType::Regular, "a", "0123456789")]);
    unpack(&tar[..515], dir.path(), LIMIT, Modes::Readable, &any_disk()).unwrap_err();
}

/// A gzip stream of an archive whose one name has this many bytes.
fn with_name_of(bytes: u64) -> impl Read {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(bytes);
    header.set_cksum();
    let head = io::Cursor::new(header.as_bytes().to_vec());
    Read::chain(head, io::repeat(b'x').take(bytes))
}

#[test]
fn a_name_of_gigabytes_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let error =
        unpack(with_name_of(4 << 30), dir.path(), LIMIT, Modes::Readable, &any_disk()).unwrap_err();
    assert!(error.to_string().contains("65536 that this node reads"), "{error}");
}

#[test]
fn long_names_and_targets_are_read_from_both_kinds_of_extension() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("{}/{}", "d".repeat(150), "f".repeat(200));
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o644);
    builder.append_data(&mut header, &long, &b"hi"[..]).unwrap();
    let pax = format!("p/{}", "q".repeat(180));
    builder.append_pax_extensions([("path", pax.as_bytes()), ("size", b"3")]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_size(3);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, &b"pax"[..]).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "link", &long).unwrap();
    let tar = builder.into_inner().unwrap();
    unpack(&tar[..], dir.path(), LIMIT, Modes::Readable, &any_disk()).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("link")).unwrap(), "hi");
    assert_eq!(fs::read_to_string(dir.path().join(pax)).unwrap(), "pax");
    assert!(!dir.path().join("short").exists());
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let deep = "d/".repeat(3_000);
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::Directory);
    header.set_size(0);
    builder.append_data(&mut header, &deep, io::empty()).unwrap();
    let tar = builder.into_inner().unwrap();
    let error = unpack(&tar[..], dir.path(), LIMIT, Modes::Kept, &any_disk()).unwrap_err();
    assert!(matches!(error, ArchiveError::TooDeep), "{error}");
}

#[test]
fn zeros_become_holes() {
    use std::os::unix::fs::MetadataExt;

    let dir = tempfile::tempdir().unwrap();
    let size_bytes = 64 << 20;
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(size_bytes + 3);
    header.set_mode(0o644);
    let content = io::repeat(0).take(size_bytes).chain(&b"end"[..]);
    builder.append_data(&mut header, "sparse", content).unwrap();
    let tar = builder.into_inner().unwrap();
    unpack(&tar[..], dir.path(), 1 << 30, Modes::Kept, &any_disk()).unwrap();
    let metadata = fs::metadata(dir.path().join("sparse")).unwrap();
    assert_eq!(metadata.len(), size_bytes + 3);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
}
