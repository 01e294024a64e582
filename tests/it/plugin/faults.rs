//! A disk that fails or is full, at every system call that could notice.
