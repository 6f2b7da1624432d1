// Package sqlite is the embedded store: one file, one server process, nothing to install.
//
// One connection writes. Commands that wait while a transaction is under way share the next one, and every commit is on
// the disk before any of them is answered (write-ahead log, synchronous=FULL). A few other connections read. The store's
// clock is Config.Now, for there is only one process. It keeps the session rows that it wrote last: whoever else writes
// into the file of a running server is not noticed.
package sqlite
