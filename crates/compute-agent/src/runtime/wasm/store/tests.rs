//! Which code the store keeps, and which it evicts.

use super::*;

#[test]
fn the_least_recently_used_code_is_evicted_first() {
    let mut index = Index::default();
    let third = MAX_STORED_BYTES / 3;
    for name in ["a", "b", "c"] {
        assert_eq!(index.insert(name.to_owned(), third), [""; 0]);
    }
    assert!(index.use_entry("a").is_some());
    assert_eq!(index.insert("d".to_owned(), third), ["b"]);
    index.remove("b");
    assert_eq!(index.bytes, third * 3);
    // An entry larger than the limit stays: it is needed now.
    let superfluous = index.insert("e".to_owned(), MAX_STORED_BYTES + 1);
    assert_eq!(superfluous, ["c", "a", "d"]);
    assert!(index.use_entry("b").is_none());
}

#[test]
fn code_of_an_earlier_agent_is_verified_before_use() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("one.code"), "code").unwrap();
    fs::write(directory.path().join("one.json"), "{}").unwrap();
    let mut index = Index::read(directory.path()).unwrap();
    assert_eq!((index.stored.len(), index.bytes), (1, 4));
    assert!(!index.use_entry("one").unwrap().is_checked);
}

#[test]
fn only_failures_of_the_module_itself_are_remembered() {
    let mut index = Index::default();
    let digest = Digest::of_file(Path::new("/dev/null")).unwrap();
    index.refuse(digest, &CompileError::Node("no room".to_owned()));
    assert!(index.refused.is_empty());
    index.refuse(digest, &CompileError::Module("is none".to_owned()));
    assert_eq!(index.refused.len(), 1);
}
