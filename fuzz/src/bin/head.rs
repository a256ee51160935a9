#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| portreeve_fuzz::head(data));
