//! Invalid modules, and invalid entry points.

use wasm_run::compiled::Function;

use super::*;

fn open(bytes: &[u8]) -> Result<Module, String> {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("module");
    fs::write(&path, bytes).unwrap();
    Module::open("the EntryModule".to_owned(), &path).map_err(|failure| failure.message)
}

#[test]
fn an_invalid_module_is_refused_with_the_reason() {
    let said = open(b"#!/bin/sh\n").unwrap_err();
    assert_eq!(
        said,
        "the EntryModule is not a WebAssembly module: it does not begin with '\\0asm'"
    );
    let said = open(&wat::parse_str("(component)").unwrap()).unwrap_err();
    assert!(said.contains("is a WebAssembly component"), "{said}");
    let missing = Module::open("it".to_owned(), Path::new("/nowhere")).unwrap_err();
    assert_eq!(missing.cause, api_types::protocol::FailureCause::Node);
}

#[test]
fn a_module_is_identified_by_its_whole_content() {
    let [one, other] = [0_u8, 1].map(|last| {
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        bytes.resize(CHUNK_BYTES * 2, 0);
        bytes.push(last);
        bytes
    });
    let (first, again) = (open(&one).unwrap().digest, open(&one).unwrap().digest);
    assert_eq!(first, again);
    assert_ne!(first, open(&other).unwrap().digest);
    let empty = open(b"\0asm\x01\0\0\0").unwrap().digest.to_string();
    assert_eq!(empty, "93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476");
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    fs::write(&from, &one).unwrap();
    assert_eq!(Digest::of_file(&from).unwrap(), first);
    let copied = Digest::of_copy(&from, &mut File::create(&to).unwrap()).unwrap();
    assert!(copied == first && fs::read(&to).unwrap() == one);
}

#[test]
fn a_module_that_is_too_large_is_not_read() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("large");
    File::create(&path).unwrap().set_len(MAX_MODULE_BYTES + 1).unwrap();
    let said = Module::open("it".to_owned(), &path).unwrap_err().message;
    assert_eq!(said, "it has 134217729 bytes; a module may have 134217728");
}

#[test]
fn the_only_module_of_a_directory_is_used() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("fetched");
    fs::create_dir_all(directory.join("docs.wasm")).unwrap();
    let file = || file(&directory).unwrap().map(|path| path.file_name().unwrap().to_owned());
    assert_eq!(file(), None);
    fs::write(directory.join("program"), "").unwrap();
    assert_eq!(file().unwrap(), "program");
    fs::write(directory.join("a.wasm"), "").unwrap();
    assert_eq!(file().unwrap(), "a.wasm");
    fs::write(directory.join("b.wasm"), "").unwrap();
    assert_eq!(file(), None);
}

#[test]
fn an_entry_point_is_a_function_without_parameters() {
    let function = |name: &str, is_entry| Function {
        name: name.to_owned(),
        signature: "(type (func (param i32)))".to_owned(),
        is_entry,
    };
    let check = |functions: &[Function], name: &str| {
        let compiled = Compiled { functions: functions.to_vec() };
        check_entry_point(&compiled, name).map_err(|failure| failure.message)
    };
    check(&[function("main", true)], "main").unwrap();
    let said = check(&[function("main", true)], "_start").unwrap_err();
    assert_eq!(said, "the EntryModule has no function '_start'; it exports 'main'");
    let said = check(&[], "_start").unwrap_err();
    assert!(said.ends_with("it exports no function at all"), "{said}");
    let said = check(&[function("f", false)], "f").unwrap_err();
    assert!(said.contains("has a function 'f' of the type (type (func (param i32)))"), "{said}");
}
