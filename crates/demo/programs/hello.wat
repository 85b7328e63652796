;; Prints `hello`; small, since users copy a command that contains it.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\08\00\00\00\06\00\00\00hello\n")
  (func (export "_start")
    (drop (call 0 (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))))
