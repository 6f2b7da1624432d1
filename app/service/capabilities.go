package service

import "maps"

// Page limits of lists.
const (
	sessionsPageDefault = 50
	sessionsPageMax     = 200
	runsPageDefault     = 50
	runsPageMax         = 200
	messagesPageDefault = 100
	messagesPageMax     = 500
	messagesPageBytes   = 4 << 20
	eventsPageDefault   = 200
	eventsPageMax       = 1000
	eventsPageBytes     = 4 << 20
	subagentsPageMax    = 200
	secretsPageDefault  = 50
	secretsPageMax      = 200
)

// Capabilities says what works in this deployment (protocol.md §9): every feature that the protocol names, the page
// limits, and the names of the hooks that fire. The caller owns what it gets.
func (s *Service) Capabilities() (features map[string]bool, limits map[string]int, hooks []string) {
	limits = map[string]int{
		"sessionsPageDefault": sessionsPageDefault,
		"sessionsPageMax":     sessionsPageMax,
		"subagentsPageMax":    subagentsPageMax,
	}
	return maps.Clone(s.features), limits, append([]string{}, s.hooks...)
}

// featureSet returns all features of the protocol, those of the service itself on, the others as given.
func featureSet(d Deps) map[string]bool {
	all := map[string]bool{
		"decisions":        false,
		"external":         false,
		"hooks":            false,
		"partials":         false,
		"plugins":          false,
		"sessions.cancel":  true,
		"sessions.list":    true,
		"settings.models":  d.Models != nil,
		"settings.secrets": d.Secrets != nil,
		"subagents":        false,
		"triggers":         false,
	}
	maps.Copy(all, d.Features)
	return all
}

// pageSize returns how many items a page has when the client asked for n, 0 meaning the default. Too many are clamped.
func pageSize(n, byDefault, most int) int {
	if n <= 0 {
		return byDefault
	}
	return min(n, most)
}
