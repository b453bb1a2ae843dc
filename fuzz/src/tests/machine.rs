//! The machine itself: panics, time and memory are judged, inputs are minimised.

use std::{cell::Cell, time::Duration};

use super::{UNBOUNDED, broken};
use crate::{
    judge::{Bounds, Judge, MEMORY, NO_PANIC, TIME},
    minimise::minimise,
    target::{Broken, Class, Effort, Target},
};

thread_local! {
    /// The clock, and the highest memory, of tests.
    static USED: Cell<(Duration, u64)> = const { Cell::new((Duration::ZERO, 0)) };
}

/// A target that calls a function.
struct Double(fn(&[u8]) -> Result<Class, Broken>);

impl Target for Double {
    fn name(&self) -> &'static str {
        "double"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        vec![b"plain: text\n".to_vec()]
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        (self.0)(input)
    }
}

fn plain() -> Result<Class, Broken> {
    Ok(Class::accepted(&[]))
}

#[test]
fn panic_is_found_and_its_input_is_minimised() {
    let target = Double(|input| match input.contains(&b'#') {
        true => panic!("planted"),
        false => plain(),
    });
    assert_eq!(broken(&target), (NO_PANIC, "#".into()));
}

#[test]
fn run_that_takes_too_long_or_too_much_is_found() {
    let bounds = Bounds {
        time: Duration::from_secs(2),
        memory: 1000,
        clock: || USED.get().0,
        peak: || USED.get().1,
    };
    let run = |target: &Double| {
        Judge::new(target, bounds)
            .run(b"", Effort::Quick)
            .map_err(|broken| broken.law)
    };
    let slow = Double(|_| {
        USED.set((USED.get().0 + Duration::from_secs(3), USED.get().1));
        plain()
    });
    assert_eq!(run(&slow), Err(TIME));
    let large = Double(|_| {
        USED.set((USED.get().0 + Duration::from_millis(5), USED.get().1 + 1001));
        plain()
    });
    assert_eq!(run(&large), Err(MEMORY));
    let modest = Double(|_| {
        USED.set((USED.get().0 + Duration::from_secs(2), USED.get().1 + 1000));
        plain()
    });
    assert!(run(&modest).is_ok());
    assert!(Judge::new(&slow, UNBOUNDED).run(b"", Effort::Quick).is_ok());
}

#[test]
fn minimised_input_keeps_what_makes_it_fail() {
    let text = b"first: 1\nsecond: [a, b]\nthird: {x: y}\n";
    let small = minimise(text, 1_000, |input| {
        input.contains(&b'[') && input.contains(&b'}')
    });
    assert_eq!(small, b"[}");
}

#[test]
fn refusals_that_differ_in_numbers_and_quotes_are_one_class() {
    let class = |text| Class::refused(text);
    assert_eq!(class("line 7: no `a`"), class("line 12: no `b`"));
    assert_ne!(class("line 7: no `a`"), class("line 7: not `a`"));
    assert_eq!(Class::accepted(&[4, 100]), Class::accepted(&[5, 127]));
    assert_ne!(Class::accepted(&[4]), Class::accepted(&[3]));
}
