//! Modules that are none, entry points that are none, and the cache.

use super::super::runtime::Runtime;
use super::*;

struct Fixture {
    root: tempfile::TempDir,
    runtime: Runtime,
}

fn fixture() -> Fixture {
    let root = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(&root.path().join("cache")).unwrap();
    Fixture { root, runtime }
}

impl Fixture {
    fn load(&self, bytes: &[u8]) -> Result<Module, String> {
        let path = self.root.path().join("module");
        fs::write(&path, bytes).unwrap();
        load(&self.runtime.engine, "the EntryModule", &path).map_err(|failure| failure.message)
    }

    fn check(&self, wat: &str, entry_point: &str) -> Result<(), String> {
        let module = self.load(&wat::parse_str(wat).unwrap()).unwrap();
        check_entry_point(&module, entry_point).map_err(|failure| failure.message)
    }
}

#[test]
fn what_is_no_module_is_refused_in_words() {
    let fixture = fixture();
    let said = fixture.load(b"#!/bin/sh\n").unwrap_err();
    assert_eq!(
        said,
        "the EntryModule is not a WebAssembly module: it does not begin with '\\0asm'"
    );
    let said = fixture.load(&wat::parse_str("(component)").unwrap()).unwrap_err();
    assert!(said.contains("is a WebAssembly component"), "{said}");
    let said = fixture.load(b"\0asm\x01\0\0\0\xFF").unwrap_err();
    assert!(said.contains("is not a valid WebAssembly module"), "{said}");
    let missing = load(&fixture.runtime.engine, "it", Path::new("/nowhere")).unwrap_err();
    assert_eq!(missing.cause, api_types::protocol::FailureCause::Node);
}

#[test]
fn a_module_that_is_too_large_is_not_read() {
    let fixture = fixture();
    let path = fixture.root.path().join("large");
    fs::File::create(&path).unwrap().set_len(MAX_MODULE_BYTES + 1).unwrap();
    let said = load(&fixture.runtime.engine, "it", &path).unwrap_err().message;
    assert_eq!(said, "it has 134217729 bytes; a module may have 134217728");
}

#[test]
fn of_a_directory_the_only_module_is_taken() {
    let fixture = fixture();
    let directory = fixture.root.path().join("fetched");
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
    let fixture = fixture();
    fixture.check(r#"(module (func (export "_start")))"#, "_start").unwrap();
    let with_code = r#"(module (func (export "main") (result i32) i32.const 3))"#;
    fixture.check(with_code, "main").unwrap();
    let said = fixture.check(with_code, "_start").unwrap_err();
    assert_eq!(said, "the EntryModule has no function '_start'; it exports 'main'");
    let said = fixture.check("(module)", "_start").unwrap_err();
    assert!(said.ends_with("it exports no function at all"), "{said}");
    let memory = r#"(module (memory (export "_start") 1))"#;
    assert!(fixture.check(memory, "_start").unwrap_err().contains("has no function"));
    for signature in
        ["(param i32)", "(result i64) i64.const 0", "(result i32 i32) i32.const 0 i32.const 0"]
    {
        let wat = format!(r#"(module (func (export "f") {signature}))"#);
        let said = fixture.check(&wat, "f").unwrap_err();
        assert!(said.contains("has a function 'f' of the type"), "{said}");
    }
}

#[test]
fn a_module_is_compiled_once_and_a_damaged_cache_is_no_harm() {
    let Fixture { root, runtime } = fixture();
    let bytes = wat::parse_str(r#"(module (func (export "_start")))"#).unwrap();
    let path = root.path().join("module");
    fs::write(&path, bytes).unwrap();
    let cache = root.path().join("cache");
    let counts = |runtime: &Runtime| (runtime.cache.cache_hits(), runtime.cache.cache_misses());
    load(&runtime.engine, "it", &path).unwrap();
    assert_eq!(counts(&runtime), (0, 1));
    // Another agent on the same directory, later.
    let later = Runtime::new(&cache).unwrap();
    load(&later.engine, "it", &path).unwrap();
    assert_eq!(counts(&later), (1, 0));

    let damaged = damage(&cache);
    assert!(damaged > 0);
    let later = Runtime::new(&cache).unwrap();
    let module = load(&later.engine, "it", &path).unwrap();
    check_entry_point(&module, "_start").unwrap();
    assert_eq!(counts(&later), (0, 1));
}

/// Cuts every file below the directory in half, and tells how many there were.
fn damage(directory: &Path) -> usize {
    let mut damaged = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            damaged += damage(&entry.path());
        } else {
            let file = match fs::OpenOptions::new().write(true).open(entry.path()) {
                Ok(file) => file,
                // The cache's own thread replaces its notes on what is used by renaming others.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => panic!("{}: {error}", entry.path().display()),
            };
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            damaged += 1;
        }
    }
    damaged
}
