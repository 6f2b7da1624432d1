package domain

// Token is a worker's proof of ownership: the process that owns the session and the epoch of its attempt. It is
// compared for equality inside the committing transaction; each claim raises the epoch and whatever ends an attempt
// clears the owner, so an older token is refused for ever (protocol.md §2).
type Token struct {
	Process string
	Epoch   int64
}

// holds reports whether t is the session's current lease (rule F of commands.md).
func (t Token) holds(s *Session) bool {
	return t.Process != "" && t.Process == s.Owner && t.Epoch == s.Epoch
}
