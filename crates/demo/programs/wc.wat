;; The word count of `task.rs` for the wasm engine: counts its share of the lines of a file.
;;
;; Argument 1 names a file in the first preopened directory. The program prints
;; `LINES WORDS BYTES NAME`. A WASI error is the exit code; 64 means that an argument or a
;; variable of the service is missing, 70 that arguments or environment are too large.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get"
    (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get"
    (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read"
    (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))

  ;; 0 list of one buffer, 8 bytes done, 12 descriptor, 16 number of strings, 20 their bytes,
  ;; 64 names of variables, 256 the number being printed, 1024 pointers to strings,
  ;; 4096 strings, 24576 arguments, 65536 the text.
  (memory (export "memory") 2)
  (data (i32.const 64) "SERVICE_EXECUTION_INDEX=")
  (data (i32.const 96) "SERVICE_EXECUTION_COUNT=")
  (data (i32.const 128) " \n")

  (func $give_up (param $code i32)
    (call $proc_exit (local.get $code))
    (unreachable))

  (func $must (param $errno i32)
    (if (local.get $errno) (then (call $give_up (local.get $errno)))))

  (func $fits (param $strings_limit i32) (param $bytes_limit i32)
    (if (i32.or
          (i32.gt_u (i32.load (i32.const 16)) (local.get $strings_limit))
          (i32.gt_u (i32.load (i32.const 20)) (local.get $bytes_limit)))
      (then (call $give_up (i32.const 70)))))

  ;; Parses the decimal number at the address.
  (func $number (param $at i32) (result i32) (local $sum i32) (local $digit i32)
    (loop $more
      (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))
      (if (i32.lt_u (local.get $digit) (i32.const 10))
        (then
          (local.set $sum
            (i32.add (i32.mul (local.get $sum) (i32.const 10)) (local.get $digit)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $more))))
    (local.get $sum))

  ;; The numeric value of the variable whose name with `=` is at the address.
  (func $variable (param $name i32) (param $length i32) (result i32)
    (local $entry i32) (local $string i32) (local $at i32)
    (loop $next
      (if (i32.ge_u (local.get $entry) (i32.load (i32.const 16)))
        (then (call $give_up (i32.const 64))))
      (local.set $string
        (i32.load (i32.add (i32.const 1024) (i32.mul (local.get $entry) (i32.const 4)))))
      (local.set $at (i32.const 0))
      (loop $same
        (if (i32.eq (local.get $at) (local.get $length))
          (then (return (call $number (i32.add (local.get $string) (local.get $length))))))
        (if (i32.eq
              (i32.load8_u (i32.add (local.get $string) (local.get $at)))
              (i32.load8_u (i32.add (local.get $name) (local.get $at))))
          (then
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $same))))
      (local.set $entry (i32.add (local.get $entry) (i32.const 1)))
      (br $next))
    (unreachable))

  ;; Reads the whole file to 65536; returns its end.
  (func $read_all (param $descriptor i32) (result i32) (local $end i32)
    (local.set $end (i32.const 65536))
    (loop $more
      ;; Ensures space for another 32 KiB.
      (if (i32.lt_u
            (i32.sub (i32.mul (memory.size) (i32.const 65536)) (local.get $end))
            (i32.const 32768))
        (then
          (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable)))))
      (i32.store (i32.const 0) (local.get $end))
      (i32.store (i32.const 4) (i32.const 32768))
      (call $must
        (call $fd_read (local.get $descriptor) (i32.const 0) (i32.const 1) (i32.const 8)))
      (local.set $end (i32.add (local.get $end) (i32.load (i32.const 8))))
      (br_if $more (i32.load (i32.const 8))))
    (local.get $end))

  ;; The beginning of a line by its number from 0, or the end of the text if there are fewer lines.
  (func $line (param $number i32) (param $end i32) (result i32) (local $at i32)
    (local.set $at (i32.const 65536))
    (block $found
      (loop $next
        (br_if $found (i32.eqz (local.get $number)))
        (br_if $found (i32.ge_u (local.get $at) (local.get $end)))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 10))
          (then (local.set $number (i32.sub (local.get $number) (i32.const 1)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $at))

  ;; Counts the lines between two addresses, including text after the last line break.
  (func $lines (param $at i32) (param $end i32) (result i32) (local $count i32) (local $last i32)
    (local.set $last (i32.const 10))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $last (i32.load8_u (local.get $at)))
        (local.set $count
          (i32.add (local.get $count) (i32.eq (local.get $last) (i32.const 10))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i32.add (local.get $count) (i32.ne (local.get $last) (i32.const 10))))

  ;; Counts the words between two addresses, separated by space, tab, line feed, form feed or carriage return.
  (func $words (param $at i32) (param $end i32) (result i32)
    (local $count i32) (local $byte i32) (local $is_word i32) (local $was_word i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $byte (i32.load8_u (local.get $at)))
        (local.set $is_word
          (i32.eqz
            (i32.or
              (i32.eq (local.get $byte) (i32.const 32))
              (i32.and
                (i32.lt_u (i32.sub (local.get $byte) (i32.const 9)) (i32.const 5))
                (i32.ne (local.get $byte) (i32.const 11))))))
        (local.set $count
          (i32.add (local.get $count)
            (i32.and (local.get $is_word) (i32.eqz (local.get $was_word)))))
        (local.set $was_word (local.get $is_word))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $count))

  (func $print (param $at i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (call $must (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))

  ;; Prints a number and a space.
  (func $print_number (param $number i32) (local $at i32)
    (local.set $at (i32.const 272))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at)
        (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
      (local.set $number (i32.div_u (local.get $number) (i32.const 10)))
      (br_if $digit (local.get $number)))
    (call $print (local.get $at) (i32.sub (i32.const 272) (local.get $at)))
    (call $print (i32.const 128) (i32.const 1)))

  (func $length (param $string i32) (result i32) (local $at i32)
    (local.set $at (local.get $string))
    (block $end
      (loop $next
        (br_if $end (i32.eqz (i32.load8_u (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i32.sub (local.get $at) (local.get $string)))

  (func (export "_start")
    (local $name i32) (local $index i32) (local $count i32) (local $all i32)
    (local $begin i32) (local $end i32)
    (call $must (call $args_sizes_get (i32.const 16) (i32.const 20)))
    (call $fits (i32.const 64) (i32.const 16384))
    (if (i32.lt_u (i32.load (i32.const 16)) (i32.const 2))
      (then (call $give_up (i32.const 64))))
    (call $must (call $args_get (i32.const 1024) (i32.const 24576)))
    (local.set $name (i32.load (i32.const 1028)))
    (call $must (call $environ_sizes_get (i32.const 16) (i32.const 20)))
    (call $fits (i32.const 768) (i32.const 20480))
    (call $must (call $environ_get (i32.const 1024) (i32.const 4096)))
    (local.set $index (call $variable (i32.const 64) (i32.const 24)))
    (local.set $count (call $variable (i32.const 96) (i32.const 24)))
    ;; Follows links, requests the right to read, and stores the descriptor at 12.
    (call $must
      (call $path_open (i32.const 3) (i32.const 1) (local.get $name)
        (call $length (local.get $name)) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0)
        (i32.const 12)))
    (local.set $end (call $read_all (i32.load (i32.const 12))))
    (local.set $all (call $lines (i32.const 65536) (local.get $end)))
    (local.set $begin
      (call $line
        (i32.div_u (i32.mul (local.get $all) (local.get $index)) (local.get $count))
        (local.get $end)))
    (local.set $end
      (call $line
        (i32.div_u
          (i32.mul (local.get $all) (i32.add (local.get $index) (i32.const 1)))
          (local.get $count))
        (local.get $end)))
    (call $print_number (call $lines (local.get $begin) (local.get $end)))
    (call $print_number (call $words (local.get $begin) (local.get $end)))
    (call $print_number (i32.sub (local.get $end) (local.get $begin)))
    (call $print (local.get $name) (call $length (local.get $name)))
    (call $print (i32.const 129) (i32.const 1))))
