//! Backoff for processes that keep dying: the first restarts are immediate, later ones are delayed more and more.

use std::time::Duration;

use tokio::time::Instant;

/// A process that lived at least this long counts as started: its death resets the backoff.
const LONG_LIFE: Duration = Duration::from_secs(10);
/// Number of early deaths in a row without a delay.
const FREE: u32 = 3;
/// First delay. Each further early death doubles it.
const FIRST: Duration = Duration::from_millis(50);
/// Maximum delay.
const MOST: Duration = Duration::from_secs(2);

/// Counts early deaths in a row and computes the delay.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    deaths: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Records that a process died after `life`. Returns the delay before the next start; none means no delay.
    pub(super) fn died(&mut self, life: Duration) -> Option<Duration> {
        self.deaths = if life < LONG_LIFE { self.deaths + 1 } else { 0 };
        let doublings = self.deaths.checked_sub(FREE + 1)?;
        let wait = FIRST.saturating_mul(1 << doublings.min(10)).min(MOST);
        self.until = Some(Instant::now() + wait);
        Some(wait)
    }

    /// Returns true if a process may be started now.
    pub(super) fn over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn early_deaths_in_a_row_delay_the_next_start() {
        let mut backoff = Backoff::default();
        for _ in 0..3 {
            assert_eq!(backoff.died(Duration::ZERO), None);
            assert!(backoff.over());
        }
        assert_eq!(backoff.died(Duration::ZERO), Some(FIRST));
        assert!(!backoff.over());
        tokio::time::advance(FIRST).await;
        assert!(backoff.over());
        for _ in 0..20 {
            backoff.died(Duration::ZERO);
        }
        assert_eq!(backoff.died(Duration::ZERO), Some(MOST));
        assert_eq!(backoff.died(LONG_LIFE), None);
    }
}
