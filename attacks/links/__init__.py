"""Edge-membership attacks: from posteriors, from queries with changed features, and from features alone.

Used elsewhere: model_free.FEATURES, similarity.LinkStealing, link_stealing.LinkClassifier, link_stealing.unordered,
linkteller.LinkTeller, model_free.EDGE_FREE, similarity.ReferenceGap.
"""
