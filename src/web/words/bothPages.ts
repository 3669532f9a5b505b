import { inEnglish, inRussian, type Tree } from "./words.ts";

/** Words of both pages. */
export const bothPages = {
  product: ["Tollgate", "Tollgate"],
  skipToContent: ["Skip to content", "К содержанию"],
  navigation: ["Views", "Разделы"],
  none: ["—", "—"],
  copy: ["Copy", "Скопировать"],
  copied: ["Copied", "Скопировано"],
  copyFailed: [
    "The browser did not allow copying. Select the text and copy it yourself.",
    "Браузер не разрешил копирование. Выделите текст и скопируйте его сами.",
  ],
  copyCsv: ["Copy CSV", "Скопировать CSV"],
  copiedRows: [
    (count: number) => `Copied ${inEnglish(count, { one: "row", other: "rows" })} as CSV`,
    (count: number) =>
      `Скопировано в CSV: ${inRussian(count, { one: "строка", few: "строки", many: "строк", other: "строки" })}`,
  ],
  close: ["Close", "Закрыть"],
  cancel: ["Cancel", "Отмена"],
  confirm: ["Confirm", "Подтвердить"],
  dismiss: ["Dismiss", "Скрыть"],
  retry: ["Try again", "Повторить"],
  more: ["Show more", "Показать ещё"],
  loading: ["Loading", "Загрузка"],
  reload: ["Reload", "Обновить"],
  search: ["Search", "Поиск"],
  clear: ["Clear", "Очистить"],
  filters: ["Filters", "Фильтры"],
  clearFilters: ["Clear filters", "Сбросить фильтры"],
  periods: {
    "1h": ["Last hour", "Последний час"],
    "24h": ["24 hours", "24 часа"],
    "7d": ["7 days", "7 дней"],
    "30d": ["30 days", "30 дней"],
  },
  anyTime: ["Any time", "Любое время"],
  times: ["Between…", "От и до"],
  since: ["From", "От"],
  until: ["Until", "До"],
  searchedTo: ["Searched back to", "Просмотрено до"],
  searchOn: ["Search on", "Искать дальше"],
  optional: ["optional", "необязательно"],
  before: ["Before", "Было"],
  after: ["After", "Станет"],
  total: ["Total", "Всего"],
  other: [
    (count: number) => inEnglish(count, { one: "other", other: "others" }),
    (count: number) =>
      inRussian(count, { one: "другая", few: "другие", many: "других", other: "других" }),
  ],
  requests: [
    (count: number) => inEnglish(count, { one: "request", other: "requests" }),
    (count: number) =>
      inRussian(count, { one: "запрос", few: "запроса", many: "запросов", other: "запроса" }),
  ],
  tokens: [
    (count: number) => inEnglish(count, { one: "token", other: "tokens" }),
    (count: number) =>
      inRussian(count, { one: "токен", few: "токена", many: "токенов", other: "токена" }),
  ],
  accounts: [
    (count: number) => inEnglish(count, { one: "account", other: "accounts" }),
    (count: number) =>
      inRussian(count, { one: "счёт", few: "счёта", many: "счетов", other: "счёта" }),
  ],
  keys: [
    (count: number) => inEnglish(count, { one: "key", other: "keys" }),
    (count: number) =>
      inRussian(count, { one: "ключ", few: "ключа", many: "ключей", other: "ключа" }),
  ],
  days: [
    (count: number) => inEnglish(count, { one: "day", other: "days" }),
    (count: number) => inRussian(count, { one: "день", few: "дня", many: "дней", other: "дня" }),
  ],
  empty: ["Nothing here yet", "Здесь пока ничего нет"],
  nothingFound: ["Nothing found", "Ничего не найдено"],
  opensElsewhere: ["opens in a new tab", "откроется в новой вкладке"],
  loadFailed: ["This could not be loaded.", "Не удалось загрузить."],
  shownEarlier: ["These figures are from before the failure.", "Показаны данные до сбоя."],
  noConnection: ["No connection to the gateway.", "Нет связи со шлюзом."],
  badAnswer: [
    "The gateway sent an answer that this page cannot read.",
    "Шлюз прислал ответ, который эта страница не может прочитать.",
  ],
  retryAfter: [
    (seconds: number) => `Try again in ${inEnglish(seconds, { one: "second", other: "seconds" })}.`,
    (seconds: number) =>
      `Повторите через ${inRussian(seconds, { one: "секунду", few: "секунды", many: "секунд", other: "секунды" })}.`,
  ],
  spans: {
    label: ["Time span", "Период"],
    "24h": ["24 hours", "24 часа"],
    "7d": ["7 days", "7 дней"],
    "30d": ["30 days", "30 дней"],
    "90d": ["90 days", "90 дней"],
  },
  change: {
    up: [
      (share: string) => `up ${share} on the span before`,
      (share: string) => `на ${share} больше, чем за период до этого`,
    ],
    down: [
      (share: string) => `down ${share} on the span before`,
      (share: string) => `на ${share} меньше, чем за период до этого`,
    ],
    none: ["as in the span before", "столько же, сколько за период до этого"],
    noneText: ["no change", "без изменений"],
    fresh: ["nothing in the span before", "за период до этого ничего не было"],
    freshText: ["new", "впервые"],
  },
  meter: {
    of: [
      (used: string, limit: string) => `${used} of ${limit}`,
      (used: string, limit: string) => `${used} из ${limit}`,
    ],
  },
  sort: [(column: string) => `Sort by ${column}`, (column: string) => `Упорядочить: ${column}`],
  chart: {
    form: ["Form", "Вид"],
    chart: ["Chart", "График"],
    table: ["Table", "Таблица"],
    time: ["Time", "Время"],
    day: ["Day (UTC)", "День (UTC)"],
    hour: ["Hour", "Час"],
    cursor: [
      (caption: string) => `${caption}: read the values`,
      (caption: string) => `${caption}: прочитать значения`,
    ],
    empty: ["No figures in this span", "За этот период данных нет"],
    wholeSpan: ["Whole span", "Весь период"],
    daysAreUtc: ["Days are UTC.", "Дни по UTC."],
    hoursAreLocal: [(zone: string) => `Hours in ${zone}.`, (zone: string) => `Часы: ${zone}.`],
  },
  status: {
    running: ["running", "идёт"],
    done: ["done", "готово"],
    failed: ["failed", "ошибка"],
    cancelled: ["cancelled", "отменён"],
    interrupted: ["interrupted", "прерван"],
  },
  sum: {
    title: ["How the cost came about", "Как сложилась стоимость"],
    note: [
      "Prices at the time of the request. Nothing is rounded.",
      "Цены на момент запроса. Ничего не округлено.",
    ],
    kind: ["What", "Что"],
    count: ["Count", "Количество"],
    price: ["Price", "Цена"],
    amount: ["Amount", "Сумма"],
    notCharged: ["Not charged", "Не списано"],
    chargedBeyond: ["Charged beyond these prices", "Списано сверх этих цен"],
    charged: ["Charged", "Списано"],
    refunded: ["Refunded", "Возвращено"],
    net: ["Cost after refunds", "Стоимость после возврата"],
  },
  pricing: {
    plan: [(id: string) => `price plan ${id}`, (id: string) => `тарифный план ${id}`],
    service: [(name: string) => `service tier ${name}`, (name: string) => `уровень ${name}`],
    from: [
      (count: number) => `prompts from ${count} tokens`,
      (count: number) => `промпты от ${count} токенов`,
    ],
    rate: [
      (rate: string) => `${rate} roubles for a dollar`,
      (rate: string) => `${rate} рубля за доллар`,
    ],
  },
  expired: ["expired", "истёк"],
} as const satisfies Tree;
