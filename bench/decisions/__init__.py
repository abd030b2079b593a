"""Whether a change decides as another commit does: both play the same worlds, and every call is compared."""
