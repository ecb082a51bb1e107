//! No text makes the parser panic, and an error points into what was given.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recount_core::schedule::Cron;

fuzz_target!(|given: (&str, &str)| {
    let (expression, zone) = given;
    match Cron::new(expression, zone) {
        Ok(cron) => assert_eq!((cron.expression(), cron.zone()), given),
        Err(error) => {
            let text = if error.field.is_some() { expression } else { zone };
            // The number of fields is told of the whole expression.
            assert!(text.get(error.span.clone()).is_some() || error.span == (0..expression.len()));
        }
    }
});
