#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headgate_table::columns::laws::hold(input));
