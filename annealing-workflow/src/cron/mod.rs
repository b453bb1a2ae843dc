//! Schedules: the instants at which a cron expression fires in a time zone.
