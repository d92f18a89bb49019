"""SES v2 as far as ministack lacks it: lists, contacts, suppression, quotas, complete mail, events."""
