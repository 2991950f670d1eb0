package v1

import (
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
)

// orderOf reads the order that a request names, or the flag for the strict one.
func orderOf(text string, ordered bool) (policy.Order, error) {
	order, err := policy.ParseOrder(text)
	switch {
	case err != nil:
		return order, api.Errorf(failure.Invalid, "order is %q, must be none, strict or key: nothing was changed", text)
	case ordered && text == "":
		return policy.Strict, nil
	case ordered && order != policy.Strict:
		return order, api.Errorf(failure.Invalid, "ordered and order %s contradict each other: nothing was changed; give order alone", text)
	}
	return order, nil
}

// permitOrder refuses order none for channels of an ordered topic.
func permitOrder(t *meta.Topic, order policy.Order) error {
	if t.Config.Ordered && !order.Some() {
		return api.Errorf(failure.Precondition, "topic %s is ordered, and order none is refused: nothing was changed; order must be strict or key", t.Name)
	}
	return nil
}

// orderIn reads the order that a change names; nil: none.
func orderIn(req api.AlterChannel) (*policy.Order, error) {
	if req.Order == nil && req.Ordered == nil {
		return nil, nil
	}
	text, ordered := "", false
	if req.Order != nil {
		text = *req.Order
	}
	if req.Ordered != nil {
		ordered = *req.Ordered
	}
	order, err := orderOf(text, ordered)
	if err == nil && req.Ordered != nil && !ordered && order == policy.Strict {
		err = api.Errorf(failure.Invalid, "ordered false and order strict contradict each other: nothing was changed; give order alone")
	}
	return &order, err
}
