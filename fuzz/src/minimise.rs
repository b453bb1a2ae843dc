//! Makes an input smaller as long as it fails in the same way.

/// The smallest input found that still `fails`, with at most `most` candidates tried: parts are removed, halves first, then single bytes, and what is left is
/// replaced by plain bytes.
pub(crate) fn minimise(input: &[u8], most: usize, mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut left = most;
    let mut try_it = |candidate: &[u8]| {
        left = left.saturating_sub(1);
        left > 0 && fails(candidate)
    };
    let mut best = input.to_vec();
    loop {
        let before = best.len();
        let mut size = best.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < best.len() {
                let end = (at + size).min(best.len());
                let candidate = [&best[..at], &best[end..]].concat();
                match try_it(&candidate) {
                    true => best = candidate,
                    false => at = end,
                }
            }
            size /= 2;
        }
        if best.len() == before {
            break;
        }
    }
    for at in 0..best.len() {
        let was = std::mem::replace(&mut best[at], b'a');
        if !was.is_ascii_alphanumeric() && try_it(&best) {
            continue;
        }
        best[at] = was;
    }
    best
}
