//! The problems a client may see (rules P): one place that maps a code to a status under each profile.
