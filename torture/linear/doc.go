// Package linear checks that what concurrent clients of one session see could have happened one step after the other:
// histories of real stores are held against a sequential model by porcupine.
package linear
