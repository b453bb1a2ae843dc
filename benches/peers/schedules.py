"""The schedules of the scenario `cron`, as the Rust side has them."""

from datetime import datetime, timedelta, timezone

ZONES = ["UTC", "Europe/London", "America/New_York", "Asia/Kolkata", "Australia/Sydney"]
BEGIN = datetime(2026, 3, 29, tzinfo=timezone.utc)
END = BEGIN + timedelta(days=1)


def expression(no):
    """The expression and the zone of schedule number `no`."""
    minute, hour = no % 60, no // 60 % 24
    cron = [
        "* * * * *",
        "*/5 * * * *",
        f"{minute} * * * *",
        f"{minute} {hour // 2},{12 + hour // 2} * * *",
        f"{minute} {hour} * * *",
    ][no % 5]
    return cron, ZONES[no // 5 % len(ZONES)]
