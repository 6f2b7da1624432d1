// Package wire is what the codecs of all backends share. Nothing here knows a backend.
//
// A Client asks one: for whom, for which model, again when the backend refused what can be done otherwise (Generation), and
// for the list of models. ReadAnswer reads what comes, as server-sent events or whole, under a watch over its silence, and
// gives it to a Decoder; a Draft is the better part of one, which shows the pieces and puts the reply together. A Fault gives what
// a backend says of a failure its class. The rest is what requests of all wires want: clean texts, names and ids, images, schemas.
//
// What remains for a codec is its own folder: provider.go says where the backend is, generate.go what is asked of it and learn.go
// what of its refusals is remembered; request.go, messages.go, thinking.go and replay.go make the request, of which replay.go is
// what may go back to the model that wrote it; event.go, decoder.go, parts.go and finish.go read the answer.
package wire
