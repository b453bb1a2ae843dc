//! A reader that ends with an error after too many bytes, or when its caller has given up, and that remembers whether it
//! came to its end.

use std::io::{self, Read};

use prodspec_gen::tree::Stop;

/// Reads at most a number of bytes.
pub(crate) struct Bounded<'s, R> {
    inner: R,
    left: u64,
    stop: &'s Stop,
    /// Whether the last read found the end.
    pub(crate) at_end: bool,
    /// Whether there was more to read than allowed.
    pub(crate) exceeded: bool,
}

impl<'s, R: Read> Bounded<'s, R> {
    pub(crate) fn new(inner: R, most: u64, stop: &'s Stop) -> Self {
        Self {
            inner,
            left: most,
            stop,
            at_end: false,
            exceeded: false,
        }
    }
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_stopped() {
            return Err(io::Error::other("reading it was given up"));
        }
        let read = self.inner.read(buffer)?;
        self.at_end = read == 0 && !buffer.is_empty();
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                self.exceeded = true;
                return Err(io::Error::other("is too long"));
            }
        }
        Ok(read)
    }
}
