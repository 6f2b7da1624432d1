package service

import (
	"context"
	"sync"

	"github.com/keel-agent/keel/domain"
)

// usageSums remembers, for some sessions, the tokens and costs up to a seq, so that asking again reads only what came since. It
// is a projection of ledgers that only grow: forgetting any of it costs a read and changes no answer.
type usageSums struct {
	mu   sync.Mutex
	sums map[domain.SessionRef]usageSum
}

type usageSum struct {
	upTo  domain.Seq
	total domain.Totals
}

// maxUsageSums bounds the memory of usageSums.
const maxUsageSums = 4096

func (u *usageSums) get(ref domain.SessionRef) usageSum {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sums[ref]
}

func (u *usageSums) put(ref domain.SessionRef, sum usageSum) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sums == nil {
		u.sums = map[domain.SessionRef]usageSum{}
	}
	for other := range u.sums {
		if len(u.sums) < maxUsageSums {
			break
		}
		delete(u.sums, other)
	}
	u.sums[ref] = sum
}

// withUsage adds what the answers and summaries in the session's ledger used, failed answers included.
func (s *Service) withUsage(ctx context.Context, out domain.Outcome) (domain.Outcome, domain.Totals, error) {
	ref, head := out.Session.Ref, out.Session.HeadSeq
	sum := s.usage.get(ref)
	if sum.upTo >= head {
		return out, sum.total, nil
	}
	err := s.scan(ctx, ref, sum.upTo, head, func(e domain.Event) (bool, error) {
		sum.upTo = e.Seq
		var err error
		sum.total, err = sum.total.After(e)
		return true, err
	})
	if err != nil {
		return domain.Outcome{}, domain.Totals{}, err
	}
	s.usage.put(ref, sum)
	return out, sum.total, nil
}
