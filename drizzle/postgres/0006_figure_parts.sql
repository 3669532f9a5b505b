-- A figure may be a part of the tokens that a column counts, so what the figures add to the price says nothing of one alone.
-- The figures of a request come with its end, and cost no more than it does. The audit proves what they add to its price.
CREATE OR REPLACE FUNCTION request_figures_belong() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (
		SELECT 1 FROM requests
		WHERE id = NEW.request_id AND status <> 'running' AND has_figures = 1
			AND NEW.quantity::numeric * NEW.price + (
				SELECT coalesce(sum(quantity::numeric * price), 0) FROM request_figures WHERE request_id = NEW.request_id
			) <= charge::numeric + write_off
	) IS NULL THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'request_figures: the request has no such figure';
	END IF;
	RETURN NEW;
END $$;
