//! Small WebAssembly programs, written as text, and jobs that run them.

use api_types::engine::EngineType;
use api_types::protocol::Work;
use api_types::source::{InputSource, SourceSpec, SourceType};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::node::work;

/// The WASI functions that the programs below use.
const IMPORTS: &str = r#"
(import "wasi_snapshot_preview1" "fd_write"
  (func $write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_read"
  (func $read (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_open"
  (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_create_directory"
  (func $mkdir (param i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_unlink_file"
  (func $unlink (param i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
(import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_sizes_get"
  (func $environ_sizes (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "clock_time_get"
  (func $time (param i32 i64 i32) (result i32)))
(import "wasi_snapshot_preview1" "poll_oneoff"
  (func $poll (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
"#;

/// Prints `length` bytes at `at`, and gives up with the error's number otherwise.
const HELPERS: &str = r#"
(memory (export "memory") 2)
(func $must (param $errno i32)
  (if (local.get $errno) (then (call $exit (local.get $errno)))))
(func $print (param $stream i32) (param $at i32) (param $length i32)
  (i32.store (i32.const 0) (local.get $at))
  (i32.store (i32.const 4) (local.get $length))
  (call $must (call $write (local.get $stream) (i32.const 0) (i32.const 1) (i32.const 8))))
"#;

/// A module with these functions and data, in addition to the above.
pub(crate) fn program(body: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {IMPORTS} {HELPERS} {body})")).expect("a module")
}

/// Prints to both streams and exits.
pub(crate) fn printing(stdout: &str, stderr: &str, code: u32) -> Vec<u8> {
    let (out, err) = (stdout.len(), stderr.len());
    let (stdout, stderr) = (stdout.escape_default(), stderr.escape_default());
    program(&format!(
        r#"(data (i32.const 1024) "{stdout}") (data (i32.const 4096) "{stderr}")
        (func (export "_start")
          (call $print (i32.const 1) (i32.const 1024) (i32.const {out}))
          (call $print (i32.const 2) (i32.const 4096) (i32.const {err}))
          (call $exit (i32.const {code})))"#
    ))
}

/// Prints that it runs, and computes until it is stopped.
pub(crate) fn endless() -> Vec<u8> {
    program(
        r#"(data (i32.const 1024) "running\n")
        (func (export "_start")
          (call $print (i32.const 1) (i32.const 1024) (i32.const 8))
          (loop $again (br $again)))"#,
    )
}

/// Prints that it runs, and waits for a quarter of an hour inside one call of WASI.
pub(crate) fn sleeping() -> Vec<u8> {
    program(
        r#"(data (i32.const 1024) "running\n")
        (func (export "_start")
          (call $print (i32.const 1) (i32.const 1024) (i32.const 8))
          (i32.store (i32.const 2064) (i32.const 1))
          (i64.store (i32.const 2072) (i64.const 900000000000))
          (call $must
            (call $poll (i32.const 2048) (i32.const 3072) (i32.const 1) (i32.const 16))))"#,
    )
}

pub(crate) fn inline(bytes: &[u8], target: &str) -> InputSource {
    let url = format!("data:application/wasm;base64,{}", BASE64_STANDARD.encode(bytes));
    let params = serde_json::from_value(json!({ "URL": url })).expect("an object");
    InputSource {
        source: SourceSpec { source_type: SourceType::Inline, params },
        target: target.to_owned(),
        alias: String::new(),
    }
}

/// As a person writes it: a module has no Target.
pub(crate) fn module(bytes: &[u8], alias: &str) -> Value {
    json!({ "Source": inline(bytes, "").source, "Alias": alias })
}

/// A task that runs the program.
pub(crate) fn wasm_work(bytes: &[u8], more: Value) -> Work {
    let mut params = json!({ "EntryModule": module(bytes, "") });
    let object = params.as_object_mut().expect("an object");
    object.extend(more.as_object().cloned().unwrap_or_default());
    work(EngineType::Wasm, params)
}
